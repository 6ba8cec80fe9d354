"""A worker on the stage: what it is told to offer, how it is registered, and what its functions do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from famulus.lab.conform.broker import Heard
from famulus.lab.conform.rule import Broken
from famulus.lab.conform.stage import WATCH_S, Stage, expect
from famulus.wire import stream

IDENTITY = "tried-worker"
#: What it offers; the second one only if it offers streams.
SERVICE = "echo"
STREAM = "count"
#: A heartbeat that no rule waits for.
LONG_MS = 3000
LONG_TIMEOUT_MS = 30_000


class WorkerStage(Stage):
    role = "worker"
    #: How many tasks it is told to take at once.
    slots = 2

    def __init__(self, command: Sequence[str], patience_s: float) -> None:
        super().__init__(command, patience_s)
        self._tickets = 0
        self.program.tell(
            do="serve",
            address=self.broker.address,
            identity=IDENTITY,
            services=[SERVICE],
            streams=[STREAM],
            slots=self.slots,
        )

    # -- its session ----------------------------------------------------------------------------------------------

    def connect(self, after: Heard | None = None, within_s: float = 0.0) -> Heard:
        """Its next CONNECT; with `after`, over another connection than that one."""
        return self.hear("CONNECT REQUEST", within_s, after)

    def admit(self, connect: Heard, heartbeat_ms: int = LONG_MS) -> Heard:
        """It gets its CONFIG, and is ready when it has sent its PING."""
        fields: dict[str, Any] = {"identity": IDENTITY, "heartbeat_ms": heartbeat_ms, "version": 1, "digest": ""}
        config = {"identity": IDENTITY, "services": connect.fields["services"], "preferred_broker": "kit"}
        known = len(self.broker.all)
        self.broker.tell(connect.peer, connect.envelope, "CONFIG", "RESPONSE", json.dumps(config).encode(), **fields)

        def ping() -> Heard | None:
            later = self.broker.all[known:]
            return next((each for each in later if each.kind == "PING REQUEST" and each.peer == connect.peer), None)

        self.until(ping, "PING after CONFIG")
        return connect

    def ready(self, heartbeat_ms: int = LONG_MS, after: Heard | None = None) -> Heard:
        """The CONNECT of a session in which it may get tasks."""
        return self.admit(self.connect(after), heartbeat_ms)

    # -- tasks ----------------------------------------------------------------------------------------------------

    def give(
        self,
        session: Heard,
        body: bytes = b"hi",
        service: str = SERVICE,
        timeout_ms: int = LONG_TIMEOUT_MS,
        message_id: str = "",
        **more: Any,
    ) -> bytes:
        """A task for this worker; its ticket."""
        self._tickets += 1
        ticket = (0x8CDDB5D9AFC00000 + self._tickets).to_bytes(8, "big")
        fields = {"message_id": message_id or f"m-{self._tickets}", "attempt": 1, "timeout_ms": timeout_ms, **more}
        self.broker.tell(session.peer, ticket, "TASK", "REQUEST", body, service=service, **fields)
        return ticket

    def called(self, body: bytes = b"hi", within_s: float = 0.0) -> dict[str, Any]:
        """The function of the program was called with this body."""
        return self.line("the call of its function", lambda line: line.get("body") == body.hex(), within_s)

    def returns(self, call: dict[str, Any], body: bytes = b"") -> None:
        self.program.tell(do="answer", task=call["task"], body=body.hex())

    def fails(self, call: dict[str, Any], reason: str) -> None:
        self.program.tell(do="fail", task=call["task"], reason=reason)

    def yields(self, call: dict[str, Any], body: bytes) -> None:
        self.program.tell(do="part", task=call["task"], body=body.hex())

    def answer(self, ticket: bytes, within_s: float = 0.0) -> Heard:
        def wanted(heard: Heard) -> bool:
            return heard.kind == "TASK RESPONSE" and heard.envelope == ticket

        return self.until(lambda: self.broker.take(wanted), "the answer with its ticket", within_s)

    def ends(self, ticket: bytes, outcome: str, body: bytes | None = None) -> Heard:
        heard = self.answer(ticket)
        said = heard.fields.get("outcome", "OK")
        expect(said == outcome, f"the outcome is {said} ({heard.fields.get('reason', '')}) instead of {outcome}")
        if body is not None:
            expect(heard.body == body, f"the body is {heard.body[:60]!r} instead of {body[:60]!r}")
        return heard

    def serves(self, session: Heard, body: bytes = b"still there?") -> None:
        """It gets a task and answers it: whatever came before has done no harm."""
        ticket = self.give(session, body)
        self.returns(self.called(body), body[::-1])
        self.ends(ticket, "OK", body[::-1])

    def no_more_answers(self, why: str, seconds: float = WATCH_S) -> None:
        self.watch(seconds)
        heard = self.broker.take(lambda heard: heard.kind in ("TASK RESPONSE", "PART RESPONSE"))
        if heard is not None:
            raise Broken(f"{why}: {heard.kind} with the envelope {heard.envelope.hex()}, {heard.header[:200]!r}")

    def part(self, ticket: bytes) -> tuple[int, bytes]:
        """The next part of this stream: its number, and what it is."""

        def wanted(heard: Heard) -> bool:
            return heard.kind == "PART RESPONSE" and heard.envelope[: -stream.NUMBER_BYTES] == ticket

        heard = self.until(lambda: self.broker.take(wanted), "a part with its ticket")
        return stream.read_place(heard.envelope)[1], heard.body
