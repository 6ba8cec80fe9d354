"""The example of a stream in docs/protocol.md, frame by frame: a broker passes on what the page says."""

from __future__ import annotations

import re
from pathlib import Path

from famulus.core.delivery import ServicePolicy
from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.routing.book import Book, BrokerAddress
from famulus.core.routing.router import Router
from famulus.wire import headers, inner

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
HEARTBEAT_MS = 1000
MESSAGE_ID = "7e615165-d868-481e-a55a-9b03854b71e4"

Frames = list[bytes]


def messages() -> list[Frames]:
    """The six messages of the example."""
    example = PAGE.read_text("utf-8").partition("### A stream in bytes")[2].partition("\n### ")[0]
    rows = re.findall(r"^\| (envelope|header|body) \| ([^|]+) \|$", example, re.MULTILINE)
    assert [name for name, _ in rows] == ["envelope", "header", "body"] * 6
    frames = [_frame(text) for _, text in rows]
    return [frames[at : at + 3] for at in range(0, len(frames), 3)]


def _frame(text: str) -> bytes:
    if text == "empty":
        return b""
    shown = text.split("`")[1]
    return shown.encode() if shown.startswith("{") else bytes.fromhex(shown)


class Ports:
    def __init__(self, router: Router) -> None:
        self.router = router
        self.asked: list[Frames] = []
        self.clients: list[Frames] = []
        self.workers: list[Frames] = []

    def to_clients(self, messages: list[Frames]) -> list[Frames]:
        self.clients += messages
        return []

    def to_workers(self, messages: list[Frames]) -> list[Frames]:
        self.workers += messages
        return []

    def to_router(self, router: bytes, questions: list[Frames]) -> bool:
        self.asked += questions
        return True

    def to_delegate(self, identity: bytes, task: Frames) -> bool:
        return False

    def to_steward(self, messages: list[Frames]) -> bool:
        return False


def test_a_broker_passes_on_what_the_page_says() -> None:
    part, passed_on, credit, credit_passed_on, answer, outcome = messages()
    ticket = answer[0]
    address = BrokerAddress("b", "family", "tcp://here:7100", "tcp://here:7101")
    ports = Ports(Router(Book(address, HEARTBEAT_MS, {"echo": ServicePolicy()}), lambda: ""))
    # Numbers go to two questions before the task, and the task's own question; then comes the ticket.
    core = Dispatcher(Bounds(), int.from_bytes(ticket, "big") - 4, [b"echo"])
    core.at(1)
    core.on_router(b"r", [[inner.NO_NUMBER, inner.HELLO]])

    def settle() -> None:
        core.flush(ports)
        while ports.asked:
            questions, ports.asked = ports.asked, []
            core.on_router(b"r", ports.router.decide(questions))
            core.flush(ports)

    for header in (
        headers.write("CONNECT", "REQUEST", identity="w", services=["echo"]),
        headers.write("PING", "REQUEST"),
    ):
        core.on_workers([[b"w", b"", header, b""]])
        settle()
    task = headers.write("TASK", "REQUEST", service="echo", message_id=MESSAGE_ID, timeout_ms=2000, credit=1)
    core.on_clients([[b"c", passed_on[0][:-4], task, b"hi"]])
    settle()
    assert ports.workers.pop()[1] == ticket
    core.on_workers([[b"w", *part]])
    settle()
    assert ports.clients.pop() == [b"c", *passed_on]
    core.on_clients([[b"c", *credit]])
    settle()
    assert ports.workers.pop() == [b"w", *credit_passed_on]
    second = [part[0][:-1] + b"\x02", part[1], b"two"]
    core.on_workers([[b"w", *second]])
    core.on_workers([[b"w", *answer]])
    settle()
    assert [[b"c", *outcome]] == ports.clients[1:]
