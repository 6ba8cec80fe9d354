"""The broker and the program of one rule, and one wait for what either of them says."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

import zmq

from famulus.lab.conform.broker import Heard, ScriptedBroker
from famulus.lab.conform.program import Program
from famulus.lab.conform.rule import Broken

#: How long nothing may happen where nothing should.
WATCH_S = 0.7
#: Between two looks at both sides, if neither says anything.
LOOK_S = 0.05

Found = TypeVar("Found")


class Stage:
    role = ""
    #: Rules that any message may break: they are judged by what was heard while all of them were tried.
    of_all = ("frames", "headers", "own-messages")

    def __init__(self, command: Sequence[str], patience_s: float) -> None:
        """`patience_s`: how long to wait for what should happen at once."""
        self.patience_s = patience_s
        self.broker = ScriptedBroker(self.role)
        try:
            self.program = Program(command)
        except BaseException:
            self.broker.close()
            raise
        #: What it told, the oldest first, and nobody has asked for yet.
        self.lines: list[dict[str, Any]] = []
        self.may_end = False

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.program.close()
        self.broker.close()

    # -- waiting --------------------------------------------------------------------------------------------------

    def until(self, find: Callable[[], Found | None], what: str, within_s: float = 0.0) -> Found:
        """What `find` finds, as soon as it does; `Broken` if it does not in time."""
        within_s = within_s or self.patience_s
        due = time.monotonic() + within_s
        while (found := find()) is None:
            left = due - time.monotonic()
            if left <= 0:
                raise Broken(f"{what}: nothing came within {within_s:g} s")
            self.look(min(left, LOOK_S))
        return found

    def watch(self, seconds: float = WATCH_S) -> None:
        """Take in what happens meanwhile."""
        due = time.monotonic() + seconds
        while (left := due - time.monotonic()) > 0:
            self.look(min(left, LOOK_S))

    def look(self, seconds: float) -> None:
        """Wait until either of them says something, at most so long, and take it in."""
        poller = zmq.Poller()
        if not self.broker.socket.closed:
            poller.register(self.broker.socket, zmq.POLLIN)
        if not self.program.has_ended:
            poller.register(self.program.fd, zmq.POLLIN)
        poller.poll(int(seconds * 1000))
        self.broker.read()
        if self.program.has_ended:
            return
        self.lines += self.program.read()
        self._check_life()

    def _check_life(self) -> None:
        if self.program.has_ended and not self.may_end:
            raise Broken(self.program.obituary())

    # -- what is heard --------------------------------------------------------------------------------------------

    def hear(self, kind: str, within_s: float = 0.0, after: Heard | None = None) -> Heard:
        """The next message of this kind; with `after`, the next over another connection than that one."""

        def wanted(heard: Heard) -> bool:
            return heard.kind == kind and (after is None or heard.peer != after.peer)

        return self.until(lambda: self.broker.take(wanted), f"{kind} from the {self.role}", within_s)

    def line(self, what: str, wanted: Callable[[dict[str, Any]], bool], within_s: float = 0.0) -> dict[str, Any]:
        """The next line of the program that is wanted."""

        def find() -> dict[str, Any] | None:
            found = next((line for line in self.lines if wanted(line)), None)
            if found is not None:
                self.lines.remove(found)
            return found

        return self.until(find, f"{what} from the program", within_s)

    def stop(self) -> None:
        """It is told to stop, and may end from now on."""
        self.may_end = True
        self.program.tell(do="stop")

    def ended(self, within_s: float = 0.0) -> None:
        """It has to end by itself, and well."""
        self.until(lambda: self.program.has_ended or None, "the end", within_s)
        code = self.program.wait(within_s or self.patience_s)
        if code:
            raise Broken(self.program.obituary())


def expect(holds: bool, seen: str) -> None:
    if not holds:
        raise Broken(seen)
