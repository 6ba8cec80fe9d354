"""At most one run at a time makes the tables of a place.

On a local disk the operating system releases the lock of whoever dies. A remote store has no such lock: there it is a
note that its holder writes again and again. Who does not do that for a while has lost it, and notices that before
anything else is published. Which note is old is told by the store's own clock, so those of the machines may differ.
"""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from famulus.errors import PlaceError, TablesBusy
from famulus.pipeline.io.place import Place

PATH: Final = "_state/lock"
#: A note that is older than this belongs to nobody any more.
LOST_S: Final = 60.0
RENEW_S: Final = 10.0
#: So long after it was written, it is still ours if nobody wrote at the same time.
SETTLE_S: Final = 1.0


class Lock:
    """That of the operating system, which nobody can take from us."""

    def check(self) -> None:
        """Raises an error if it is no longer ours. To be asked before anything is published."""


class _Note(Lock):
    def __init__(self, tables: Place, lost_s: float) -> None:
        self._tables = tables
        self._lost_s = lost_s
        self._said = f"{_me()} ({uuid4().hex})"
        self._written_s = 0.0

    def take(self) -> None:
        probe = f"{PATH}-{os.getpid()}-{uuid4().hex[:8]}"
        if (holder := self._holder()) is not None:
            self._tables.write(probe, b"")
            age_s = self._tables.changed_s(probe) - self._tables.changed_s(PATH)
            self._tables.remove(probe)
            if age_s <= self._lost_s:
                raise TablesBusy(f"{self._tables} is in use by {holder}, which said so {max(age_s, 0):.0f} s ago")
        self._write()
        time.sleep(min(SETTLE_S, self._lost_s / 4))
        self.check()

    def renew(self) -> None:
        self.check()
        self._write()

    def check(self) -> None:
        holder = self._holder()
        if holder != self._said:
            raise TablesBusy(f"{self._tables} was taken over by {holder or 'nobody'}; what was published is whole")
        if time.monotonic() - self._written_s > self._lost_s:
            raise TablesBusy(f"{self._tables} may be in use by another run: the lock could not be renewed in time")

    def release(self) -> None:
        if self._holder() == self._said:
            self._tables.remove(PATH)

    def _write(self) -> None:
        # The time before it: others count from some moment after that.
        began = time.monotonic()
        self._tables.write(PATH, self._said.encode())
        self._written_s = began

    def _holder(self) -> str | None:
        # On a store that cannot replace a file in one step, the note is away for a moment whenever it is renewed.
        for pause_s in (0.0, 0.1, 0.2, 0.4):
            time.sleep(min(pause_s, SETTLE_S))
            with suppress(FileNotFoundError):
                if said := self._tables.read(PATH).decode(errors="replace").strip():
                    return said
        return None


@contextmanager
def locked(tables: Place, *, lost_s: float = LOST_S, renew_s: float = RENEW_S) -> Iterator[Lock]:
    tables.make_folder("_state")
    if tables.is_local:
        with _held(tables.folder / PATH, tables):
            yield Lock()
        return
    note, over = _Note(tables, lost_s), threading.Event()
    note.take()

    def renew() -> None:
        while not over.wait(renew_s):
            # Whatever is wrong, the next check tells: it is ours no more, or it grows old.
            with suppress(TablesBusy, PlaceError, OSError):
                note.renew()

    thread = threading.Thread(target=renew, name="lock", daemon=True)
    thread.start()
    try:
        yield note
    finally:
        over.set()
        thread.join()
        note.release()


@contextmanager
def _held(path: Path, tables: Place) -> Iterator[None]:
    """The operating system releases it when we die, however we die."""
    try:
        file = path.open("a+")
    except OSError as error:
        raise PlaceError(f"{path} cannot be written: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise TablesBusy(f"{tables} is in use by another run of the pipeline ({file.read().strip()})") from None
        file.truncate(0)
        file.write(_me())
        file.flush()
        yield


def _me() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"
