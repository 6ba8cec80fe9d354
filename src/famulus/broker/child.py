"""One process of a broker as its supervisor sees it, and how it is treated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from time import monotonic_ns
from typing import IO, Any, Final

import msgspec

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.core.hangs import HANG_NS, Doubts
from famulus.core.restarts import Restarts

START_NS: Final = 30 * NS_PER_S


class WhenLost(Enum):
    """What it means for the broker if a process cannot start, or keeps dying."""

    #: The broker cannot do without it, and ends.
    FATAL = auto()
    #: The broker does its work without it, and tries again every minute.
    RETRIED = auto()
    #: The broker does its work without it from then on.
    TOLERATED = auto()


@dataclass(frozen=True, slots=True)
class Policy:
    """What a process is told, how patient its supervisor is, and what its loss means."""

    #: What it is told when it starts, besides the settings.
    facts: Callable[[], dict[str, Any]] = dict
    #: Called when it has ended, for whatever reason.
    on_end: Callable[[], None] = lambda: None
    when_lost: WhenLost = WhenLost.FATAL
    #: What its loss is called if the broker goes on.
    missed: str = ""
    #: How long it may say nothing once it is ready, and before that.
    hang_ns: int = HANG_NS
    start_ns: int = START_NS
    #: Everybody waits for it, so a hang must be found quickly: the system is asked what it is doing.
    is_waited_for: bool = False
    #: The broker drains through it: then it is meant to end.
    ends_the_drain: bool = False
    #: How long it has to finish its work when the broker stops; if 0, it is killed.
    stop_s: float = 0.0


class Child:
    def __init__(self, name: str, module: str, policy: Policy) -> None:
        self.name = name
        self.module = module
        self.policy = policy
        self.restarts = Restarts()
        self.doubts = Doubts()
        #: How often it was started.
        self.starts = 0
        self.start_at_ns = NEVER_NS
        self.seen_ns = 0
        self.ready = False
        #: What it last said about itself.
        self.facts: dict[str, Any] = {}
        #: Why it could not start, in its own words: starting it again would not help.
        self.failed = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""

    @property
    def running(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    @property
    def stdout(self) -> IO[bytes]:
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout

    def start(self, settings: dict[str, Any]) -> None:
        """Start it, in a session of its own: Ctrl-C in a terminal is for the supervisor to handle."""
        self.starts += 1
        self.start_at_ns = NEVER_NS
        self.seen_ns = monotonic_ns()
        self.ready = False
        self.failed = ""
        self._buffer = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", self.module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        os.set_blocking(self.stdout.fileno(), False)
        self.tell(settings)

    def tell(self, command: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        # If it is dead, its standard output says so too, and that is where we notice.
        with suppress(BrokenPipeError):
            self._process.stdin.write(msgspec.json.encode(command) + b"\n")
            self._process.stdin.flush()

    def hear(self) -> bool:
        """Read its reports; False if it is gone."""
        piece = self.stdout.read(65536)
        if piece == b"":
            return False
        *lines, self._buffer = (self._buffer + (piece or b"")).split(b"\n")
        for line in lines:
            self.seen_ns = monotonic_ns()
            report = msgspec.json.decode(line)
            self.ready = self.ready or "ready" in report
            self.failed = report.get("failed", self.failed)
            self.facts.update(report)
        return True

    def bury(self, within_s: float = 5.0) -> str:
        """Take its exit status, and say how it died. One that still lives sees us gone, and has this long to exit."""
        assert self._process is not None
        if self._process.stdin is not None:
            # Closing would write once more what it was told and did not read.
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        self.stdout.close()
        try:
            code = self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._process = None
        self.ready = False
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def work(self) -> tuple[str, int]:
        """What the system says it is doing, as a letter, and for how many processor ticks it has worked."""
        with suppress(OSError, IndexError, ValueError):
            # Its name, which may contain anything, is in brackets.
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            return fields[0], int(fields[11]) + int(fields[12])
        return "", 0

    def hangs(self, now_ns: int) -> bool:
        """Whether it has said nothing for too long."""
        policy = self.policy
        if not self.running:
            return False
        if self.seen_ns + (policy.hang_ns if self.ready else policy.start_ns) <= now_ns:
            return True
        if not policy.is_waited_for or now_ns < self.look_ns:
            return False
        return self.doubts.hangs(now_ns, self.seen_ns, *self.work())

    @property
    def look_ns(self) -> int:
        """When to check next whether it hangs, if that matters."""
        return self.doubts.look_ns(self.seen_ns) if self.policy.is_waited_for and self.ready else NEVER_NS

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
