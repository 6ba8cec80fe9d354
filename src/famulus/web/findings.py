"""The pipeline's findings: read when somebody asks for them, in a thread, and only if the file has changed.

Only one thread at a time looks, and what it found is kept. So neither many viewers, nor a large file, nor a disk that
hangs gets in the way of the herald's other work.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic_ns
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from famulus.broker.settings import Settings
from famulus.core.clock import NS_PER_S
from famulus.errors import NoAnswer, NoFinding, NotFindings
from famulus.tables import apart
from famulus.tables.finding import FILE, FILE_BYTES_MAX, Finding
from famulus.web import threads

#: The limits of one answer; what is beyond them is only counted.
SHOWN_MAX = 500
ANSWER_BYTES_MAX = 1024 * 1024
#: The time between two looks at the file, however many ask.
LOOK_NS = 1 * NS_PER_S
#: A disk that takes longer hangs, as far as a viewer is concerned. The process that reads needs a second or more.
WAIT_S = 15.0


class FindingsAnswer(Struct, frozen=True):
    there: bool
    problem: str
    command: str
    made_ms: int | None = None
    accounted: bool | None = None
    total: int = 0
    findings: Sequence[msgspec.Raw] = ()


@dataclass(frozen=True, slots=True)
class ShownFindings:
    """The findings, and the answer made from them."""

    #: Shows whether the file has changed.
    stamp: tuple[int, ...] | None
    answer: bytes
    rows: tuple[Finding, ...] = ()


class Findings:
    def __init__(self, folder: str | Path, command: str, clock: Callable[[], int] = monotonic_ns) -> None:
        """`command`: the command that makes them, shown if there are none."""
        self._folder = str(folder)
        self._command = command
        self._clock = clock
        self._told: ShownFindings | None = None
        self._looked_ns = 0
        self._reading: asyncio.Future[ShownFindings] | None = None

    async def answer(self) -> bytes:
        """As /api/v1/findings returns them."""
        return (await self._look()).answer

    async def find(self, wanted: str) -> Finding:
        """By its id, among those that are shown."""
        for each in (await self._look()).rows:
            if each.id == wanted:
                return each
        raise NoFinding("there is no such finding any more: look at the page again")

    async def _look(self) -> ShownFindings:
        if self._told is not None and self._clock() < self._looked_ns + LOOK_NS:
            return self._told
        if self._reading is None:
            try:
                self._reading = threads.start(partial(look, self._folder, self._command, self._told), "findings")
            except RuntimeError:  # the system gives us no more threads
                raise NoAnswer("too many at once; try again in a moment") from None
            self._reading.add_done_callback(self._take)
        try:
            async with asyncio.timeout(WAIT_S):
                return await asyncio.shield(self._reading)
        except TimeoutError:
            raise NoAnswer("the folder of the tables does not answer") from None

    def _take(self, reading: asyncio.Future[ShownFindings]) -> None:
        self._reading = None
        if not reading.cancelled() and reading.exception() is None:
            self._told = reading.result()
            self._looked_ns = self._clock()


def made_by(settings: Settings) -> str:
    """The command that makes the findings which a broker with these settings shows."""
    words = ["famulus", "pipeline", "run", "--journal", str(settings.journal_path().absolute())]
    if settings.tables_folder:
        words += ["--tables", settings.tables_path()]
    return shlex.join(words)


# -- in a thread ---------------------------------------------------------------------------------------------------


def look(folder: str, command: str, before: ShownFindings | None) -> ShownFindings:
    """What the folder has now; `before`, if the file is still the same. Whatever is wrong becomes a sentence."""
    if "://" in folder:
        return _none(None, command, "they are in another store: famulus findings --tables shows them")
    stamp: tuple[int, ...] | None = None
    try:
        with open(os.path.join(folder, FILE), "rb", opener=_open) as file:
            about = os.fstat(file.fileno())
            stamp = (about.st_dev, about.st_ino, about.st_mtime_ns, about.st_size)
            if before is not None and before.stamp == stamp:
                return before
            return _read(file, about, stamp, command)
    except FileNotFoundError:
        return _none(None, command)
    except OSError as error:
        return _none(None, command, f"the findings cannot be read: {error.strerror}")
    except NotFindings as error:
        return _none(stamp, command, f"the findings cannot be read: {error}")


def _open(path: str, flags: int) -> int:
    """If it is a pipe, opening it must not wait for somebody to write into it."""
    return os.open(path, flags | os.O_NONBLOCK)


def _read(file: BinaryIO, about: os.stat_result, stamp: tuple[int, ...], command: str) -> ShownFindings:
    if not stat.S_ISREG(about.st_mode):
        raise NotFindings("it is not a file")
    if about.st_size > FILE_BYTES_MAX:
        raise NotFindings(f"it has {about.st_size:,} bytes, and {FILE_BYTES_MAX:,} at most are read")
    found = apart.read(file, SHOWN_MAX)
    shown: list[msgspec.Raw] = []
    room = ANSWER_BYTES_MAX
    for each in found.rows:
        facts = msgspec.json.encode(_facts(each))
        room -= len(facts)
        if room < 0:
            break
        shown.append(msgspec.Raw(facts))
    made_ms = about.st_mtime_ns // 1_000_000
    told = FindingsAnswer(True, "", command, made_ms, found.accounted, found.total, shown)
    return ShownFindings(stamp, msgspec.json.encode(told), tuple(found.rows[: len(shown)]))


def _facts(finding: Finding) -> dict[str, Any]:
    facts = msgspec.structs.asdict(finding)
    seen = facts.pop("last_seen")
    return {**facts, "last_seen_ms": int(seen.timestamp() * 1000), "digest": finding.digest if finding.has_edit else ""}


def _none(stamp: tuple[int, ...] | None, command: str, problem: str = "") -> ShownFindings:
    return ShownFindings(stamp, msgspec.json.encode(FindingsAnswer(False, problem, command)))
