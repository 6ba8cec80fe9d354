"""At most one run at a time makes the tables of a place."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from famulus.errors import PlaceError, TablesBusy
from famulus.pipeline.io.place import Place

PATH: Final = "_state/lock"


@contextmanager
def locked(tables: Place) -> Iterator[None]:
    tables.make_folder("_state")
    if tables.is_local:
        with _held(tables.folder / PATH, tables):
            yield
        return
    # A remote store has no lock that is released when its holder dies. So this is a note, and a person may remove it.
    if any(name == "lock" for name in tables.names("_state")):
        holder = tables.read(PATH).decode(errors="replace").strip()
        raise TablesBusy(f"{tables} is in use by {holder}; if that is no longer true, remove {tables.uri(PATH)}")
    tables.write(PATH, _me().encode())
    try:
        yield
    finally:
        tables.remove(PATH)


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
