"""A client on the stage: what it is asked to do, and what becomes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from famulus.lab.conform.broker import Heard
from famulus.lab.conform.rule import Broken
from famulus.lab.conform.stage import WATCH_S, Stage, expect
from famulus.wire import stream

#: Longer than any rule takes.
LONG_MS = 30_000


class ClientStage(Stage):
    role = "client"

    def __init__(self, command: Sequence[str], patience_s: float) -> None:
        super().__init__(command, patience_s)
        self._asked = 0
        self.program.tell(do="connect", address=self.broker.address)

    # -- the program ----------------------------------------------------------------------------------------------

    def ask(self, body: bytes = b"hi", service: str = "echo", timeout_ms: int = LONG_MS, **more: Any) -> str:
        """The program sends a task; the id by which it tells the outcome."""
        self._asked += 1
        asked = str(self._asked)
        self.program.tell(do="ask", id=asked, service=service, body=body.hex(), timeout_ms=timeout_ms, **more)
        return asked

    def cancel(self, asked: str) -> None:
        self.program.tell(do="cancel", id=asked)

    def outcome(self, asked: str, within_s: float = 0.0) -> dict[str, Any]:
        return self.line("an outcome", lambda line: line.get("id") == asked and "outcome" in line, within_s)

    def part(self, asked: str) -> bytes:
        line = self.line("a part", lambda line: line.get("id") == asked and "part" in line)
        return _bytes_in(line, "part")

    def ends(self, asked: str, outcome: str, body: bytes | None = None, within_s: float = 0.0) -> dict[str, Any]:
        told = self.outcome(asked, within_s)
        expect(told["outcome"] == outcome, f"the outcome is {_shown(told)} instead of {outcome}")
        if body is not None:
            said = _bytes_in(told, "body")
            expect(said == body, f"the body of the answer is {said[:60]!r} instead of {body[:60]!r}")
        return told

    def has_not_ended(self, asked: str) -> None:
        told = [line for line in self.lines if line.get("id") == asked]
        expect(not told, f"the program told {told[:1]}")

    # -- the broker -----------------------------------------------------------------------------------------------

    def task(self, within_s: float = 0.0) -> Heard:
        return self.hear("TASK REQUEST", within_s)

    def answer(self, task: Heard, body: bytes = b"", outcome: str = "OK", **fields: Any) -> None:
        ids = {"service": task.fields["service"], "message_id": task.fields.get("message_id") or "made-by-the-kit"}
        self.broker.tell(task.peer, task.envelope, "TASK", "RESPONSE", body, **ids, outcome=outcome, **fields)

    def give(self, task: Heard, number: int, body: bytes) -> None:
        """A part of a stream."""
        self.broker.tell(task.peer, stream.write_place(task.envelope, number), "PART", "RESPONSE", body)

    def serves(self, body: bytes = b"still there?") -> None:
        """A task of ours is asked and answered: whatever came before has done no harm."""
        asked = self.ask(body)
        task = self.until(lambda: self.broker.take(lambda heard: heard.body == body), "the next task")
        self.answer(task, body[::-1])
        self.ends(asked, "OK", body[::-1])

    def loses_its_broker(self) -> None:
        """The broker goes away, and the client has noticed: a task that was open has ended."""
        asked = self.ask(b"to be lost", timeout_ms=2000)
        self.task()
        self.broker.leave()
        self.ends(asked, "UNKNOWN")

    def no_more_tasks(self, why: str, seconds: float = WATCH_S) -> None:
        self.watch(seconds)
        again = self.broker.take(lambda heard: heard.kind == "TASK REQUEST")
        if again is not None:
            raise Broken(f"{why}: {again.header[:200]!r}")


def _bytes_in(line: dict[str, Any], key: str) -> bytes:
    try:
        return bytes.fromhex(line.get(key, ""))
    except (TypeError, ValueError):
        raise Broken(f"the program wrote {line}, in which {key!r} is not bytes in hexadecimal digits") from None


def _shown(told: dict[str, Any]) -> str:
    reason = told.get("reason", "")
    return f"{told['outcome']} ({reason})" if reason else str(told["outcome"])
