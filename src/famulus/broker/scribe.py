"""The scribe's process."""

from __future__ import annotations

import logging
import os
import signal
import time
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

from famulus.broker.lifeline import Lifeline, serve
from famulus.broker.settings import Settings
from famulus.core.clock import NS_PER_S
from famulus.core.objective import ObjectiveFacts
from famulus.journal.columns import warm_up
from famulus.journal.upkeep import Upkeep
from famulus.journal.writing import Roll, Writing
from famulus.net import sockets
from famulus.net.pump import recv_many
from famulus.net.waiting import Waiting
from famulus.wire.rows import BrokerRow

log = logging.getLogger("famulus.broker")

BATCHES_MAX: Final = 16
REPORT_NS: Final = NS_PER_S // 2
#: At the end: how long to wait for what is still on its way.
LAST_WORDS_S: Final = 0.2
MISSING_WORDS_S: Final = 5.0
#: A batch that has arrived waits for others: under load, waking up for each would cost more than reading it.
REST_S: Final = 0.05
#: With more rows per second than this, there is no time for tidying.
QUIET_ROWS: Final = 20_000
#: Tasks come first: if cores are scarce, rows wait a little in their pipe.
NICENESS: Final = 5


class Scribing:
    """Batches in, files out; decides nothing."""

    def __init__(self, settings: Settings, ipc: str, boot: str, lifeline: Lifeline) -> None:
        self._lifeline = lifeline
        self._context = sockets.new_context()
        self._pull = sockets.inside_pull(self._context, f"ipc://{ipc}/journal", sockets.JOURNAL_PIPE_MAX)
        folder = settings.journal_path()
        roll = Roll(settings.journal_roll_s, settings.journal_roll_bytes)
        self._writing = Writing(
            folder, settings.identity, settings.family, roll, lambda words: log.warning("%s", words)
        )
        self._writing.boot = boot
        self._upkeep = Upkeep(self._writing.folder, settings.journal_days, settings.journal_bytes_max)
        # In a network the steward tells of them.
        self._objectives = {} if settings.folder else settings.objectives()
        self._objective_facts = ObjectiveFacts()
        self._waiting = Waiting()
        self._waiting.watch(self._pull)
        self._waiting.watch(lifeline.fd)
        self._stopping = False
        self._report_ns = 0
        self._rows_before = 0

    def run(self) -> None:
        try:
            self._recover()
            warm_up()
            # Our supervisor may be gone by now: even then, what we were told before must be written.
            self._lifeline.report(ready=True)
            while not self._stopping:
                # Tidying is done between batches, while there is any to do.
                busy = self._read() or self._upkeep.step(time.time_ns() // 1000)
                self._report()
                self._obey()
                if not busy:
                    self._waiting.wait(self._report_ns)
                    time.sleep(REST_S)
        finally:
            self._last_words()

    def stop(self, *_: object) -> None:
        self._stopping = True

    def _recover(self) -> None:
        for file, finished in self._writing.folder.recover().items():
            then = "is now" if finished else "cannot be read; it is removed"
            log.warning("%s was not finished by a former scribe, and %s", file.path, then)

    def _read(self) -> bool:
        batch = recv_many(self._pull, BATCHES_MAX)
        now_us = time.time_ns() // 1000
        for message in batch:
            self._writing.take(message[0], now_us)
        return bool(batch)

    def _report(self) -> None:
        now_ns = time.monotonic_ns()
        if now_ns < self._report_ns:
            return
        self._report_ns = now_ns + REPORT_NS
        now_us, writing = time.time_ns() // 1000, self._writing
        # Without a name for the dispatcher's life nothing can be noted yet.
        if writing.boot and (rows := self._objective_facts.look(self._objectives, now_ns)):
            writing.note(rows, now_us, now_ns)
        writing.tick(now_us, now_ns)
        counts = writing.counts
        seen = counts.rows + writing.open_rows
        self._upkeep.quiet = seen - self._rows_before < QUIET_ROWS
        self._rows_before = seen
        self._lifeline.report(alive=True, open_rows=writing.open_rows, **asdict(counts))

    def _obey(self) -> None:
        commands = self._lifeline.commands()
        if commands is None:
            self._stopping = True
            return
        for command in commands:
            self._writing.boot = command.get("boot", self._writing.boot)
            self._writing.config_version = command.get("config_version", self._writing.config_version)
            for boot, told in command.get("ended", ()):
                self._writing.ledger.end("dispatcher", boot, told, time.time_ns() // 1000)
            for boot, at_ns, event, process, state, detail in command.get("rows", ()):
                row = BrokerRow(at_ns, event.encode(), process.encode(), state.encode(), detail=detail.encode())
                self._writing.note([row], time.time_ns() // 1000, time.monotonic_ns(), boot)

    def _last_words(self) -> None:
        """Read everything that is on its way, then write everything to the disk."""
        with suppress(SystemExit):
            self._obey()
        patience = time.monotonic() + MISSING_WORDS_S
        until = time.monotonic() + LAST_WORDS_S
        # The dispatcher is gone, but its last rows may still be in the socket, and it said how many there are.
        while time.monotonic() < (patience if self._writing.ledger.awaits_rows else until):
            if self._read():
                until = time.monotonic() + LAST_WORDS_S
            else:
                time.sleep(0.01)
        self._writing.close(time.time_ns() // 1000, time.monotonic_ns())
        self._context.destroy(linger=0)


def _start(settings: Settings, facts: dict[str, Any], lifeline: Lifeline) -> None:
    os.nice(NICENESS)
    scribing = Scribing(settings, facts["ipc"], facts["boot"], lifeline)
    signal.signal(signal.SIGTERM, scribing.stop)
    scribing.run()


if __name__ == "__main__":
    serve(_start)
