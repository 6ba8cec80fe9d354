"""What Java has loaded in one session, kept for the next: with it a session starts in half the time.

The JVM writes it at its end, which takes half a minute. Nobody waits for that. A JVM writes the first bytes of an
archive last, so the next session sees whether it was finished.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import pyspark

from famulus.pipeline.run.java import Java

#: Whoever has begun one, and not finished it in this time, never will.
UNFINISHED_S: Final = 600
#: The first Java that keeps more than classes: also what Scala makes of each function when it is first called.
AHEAD_OF_TIME: Final = 25


class Archive:
    """The one of a build of Java and a class path, in a folder of the user's cache."""

    def __init__(self, folder: Path, java: Java) -> None:
        key = f"{java.build} {java.home} {pyspark.__version__} {pyspark.__file__} {os.environ.get('SPARK_CONF_DIR')}"
        self._path = folder / f"spark-{sha256(key.encode()).hexdigest()[:12]}.jsa"
        self._is_ahead_of_time = java.version >= AHEAD_OF_TIME

    def to_use(self) -> str | None:
        """Java's option to start with it, if there is one."""
        for begun in self._begun():
            if _is_finished(begun):
                # Atomically, since others may be starting; all of them write the same.
                with suppress(OSError):
                    begun.replace(self._path)
        if not self._path.exists():
            return None
        return f"-XX:{'AOTCache' if self._is_ahead_of_time else 'SharedArchiveFile'}={self._path}"

    def to_make(self) -> str | None:
        """Java's option to write it at the end, unless another session does."""
        self._forget()
        if self._begun():
            return None
        writing = self._path.with_suffix(f".{os.getpid()}.writing")
        try:
            writing.touch()
        except OSError:
            return None
        return f"-XX:{'AOTCacheOutput' if self._is_ahead_of_time else 'ArchiveClassesAtExit'}={writing}"

    def _begun(self) -> list[Path]:
        return list(self._path.parent.glob(f"{self._path.stem}.*.writing"))

    def _forget(self) -> None:
        """Those of sessions that were killed, of whatever build, and what their JVM made on the way."""
        for left in self._path.parent.glob("spark-*.writing*"):
            with suppress(OSError):
                if time.time() - left.stat().st_mtime > UNFINISHED_S:
                    left.unlink()


def _is_finished(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return file.read(4) not in (b"", bytes(4))
    return False
