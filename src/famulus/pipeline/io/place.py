"""A folder, here or far away: `/var/lib/journal`, `hdfs://...`, `s3a://...`. Knows files, but not what is in them.

Both Spark and Arrow work on the same places. Spark reads and writes many rows; Arrow reads and writes few of them, and
lists, checks and moves files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as fs

from famulus.errors import PlaceError


def is_damage(error: Exception) -> bool:
    """Whether Arrow could not make sense of what it read. Errors of the system, such as of a disk, have a number."""
    is_of_arrow = isinstance(error, pa.ArrowException | OSError) and not isinstance(error, MemoryError)
    return is_of_arrow and getattr(error, "errno", None) is None


@dataclass(frozen=True, slots=True, order=True)
class FoundFile:
    #: Below the place, with slashes.
    path: str
    bytes: int


class Place:
    """One folder and what is below it."""

    def __init__(self, where: str | os.PathLike[str]) -> None:
        self.name = os.fspath(where)
        if "://" in self.name and not self.name.startswith("file://"):
            try:
                # Arrow and Hadoop have different names for the same store.
                self.filesystem, base = fs.FileSystem.from_uri(self.name.replace("s3a://", "s3://", 1))
            except (pa.ArrowException, OSError, ValueError) as error:
                raise PlaceError(f"{self.name} cannot be reached: {first_line(error)}") from None
            self.is_local = False
        else:
            self.filesystem, base = fs.LocalFileSystem(), str(Path(self.name.removeprefix("file://")).absolute())
            self.is_local = True
        self._base = base.rstrip("/")

    def __str__(self) -> str:
        return self.name

    def uri(self, path: str = "") -> str:
        """For Spark."""
        base = f"file://{self._base}" if self.is_local else self.name.rstrip("/")
        return f"{base}/{path}" if path else base

    def full(self, path: str) -> str:
        """For Arrow; for a local place, the name of the file."""
        return f"{self._base}/{path}" if path else self._base

    @property
    def folder(self) -> Path:
        assert self.is_local
        return Path(self._base)

    def exists(self) -> bool:
        with _may_fail(self.name, "read"):
            return bool(self.filesystem.get_file_info(self._base).type == fs.FileType.Directory)

    def files(self, below: str = "") -> Iterator[FoundFile]:
        """All that are not hidden, in folders that are not hidden; none if the folder is not there."""
        if self.is_local:
            yield from _walk(self.folder / below if below else self.folder, below)
            return
        selector = fs.FileSelector(self.full(below), allow_not_found=True, recursive=True)
        with _may_fail(self.full(below), "read"):
            found = self.filesystem.get_file_info(selector)
        for each in found:
            path = each.path[len(self._base) + 1 :]
            inside = path[len(below) + 1 :] if below else path
            if each.type == fs.FileType.File and not any(part.startswith((".", "_")) for part in inside.split("/")):
                yield FoundFile(path, each.size)

    def names(self, folder: str) -> list[str]:
        """What is directly in a folder, hidden or not."""
        with _may_fail(self.full(folder), "read"):
            found = self.filesystem.get_file_info(fs.FileSelector(self.full(folder), allow_not_found=True))
        return sorted(each.base_name for each in found)

    def changed_s(self, path: str) -> float:
        """When a file was last written, by the clock of the store."""
        with _may_fail(self.full(path), "read"):
            return float(self.filesystem.get_file_info(self.full(path)).mtime_ns or 0) / 1e9

    def open(self, path: str) -> Any:
        """For reading, at any position."""
        return self.filesystem.open_input_file(self.full(path))

    def read(self, path: str) -> bytes:
        with self.filesystem.open_input_stream(self.full(path)) as file:
            return bytes(file.read())

    def write(self, path: str, content: bytes) -> None:
        """All or nothing: it is there with its whole content, or it is not there."""
        folder, _, name = path.rpartition("/")
        unfinished = f"{folder}/.{name}.tmp" if folder else f".{name}.tmp"
        self.put(unfinished, content)
        self.settle(unfinished, path)

    def put(self, path: str, content: bytes) -> None:
        """For where nobody looks: the file may be incomplete for a while."""
        self.make_folder(path.rpartition("/")[0])
        with _may_fail(self.full(path), "written"), self.filesystem.open_output_stream(self.full(path)) as file:
            file.write(content)

    def settle(self, source: str, target: str) -> None:
        """Replaces a file of that name, atomically where the store can do that, and for good: if the machine loses
        power, it is there, or what was there before."""
        if self.is_local:
            with open(self.full(source), "rb") as file:
                os.fsync(file.fileno())
            os.replace(self.full(source), self.full(target))
            return
        try:
            self.filesystem.move(self.full(source), self.full(target))
        except OSError:
            # Some stores refuse to replace a file.
            self.filesystem.delete_file(self.full(target))
            self.filesystem.move(self.full(source), self.full(target))

    def make_folder(self, path: str = "") -> None:
        with _may_fail(self.full(path), "made"):
            self.filesystem.create_dir(self.full(path), recursive=True)

    def remove(self, path: str) -> None:
        """A file that is not there is ignored."""
        if self.filesystem.get_file_info(self.full(path)).type == fs.FileType.File:
            self.filesystem.delete_file(self.full(path))

    def remove_folder(self, path: str) -> None:
        """With all that is in it."""
        if self.filesystem.get_file_info(self.full(path)).type == fs.FileType.Directory:
            self.filesystem.delete_dir(self.full(path))


def _walk(folder: Path, below: str) -> Iterator[FoundFile]:
    """Faster than Arrow for many small folders, and it says which folder it was not allowed to read."""
    entries: list[os.DirEntry[str]] = []
    with _may_fail(str(folder), "read"), suppress(FileNotFoundError):
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    for entry in entries:
        if entry.name.startswith((".", "_")):
            continue
        path = f"{below}/{entry.name}" if below else entry.name
        if entry.is_dir():
            yield from _walk(folder / entry.name, path)
            continue
        with suppress(FileNotFoundError):  # compacted or expired since it was listed
            yield FoundFile(path, entry.stat().st_size)


@contextmanager
def _may_fail(name: str, how: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # Arrow's own message is much longer.
        reason = os.strerror(error.errno) if error.errno else first_line(error)
        raise PlaceError(f"{name} cannot be {how}: {reason}") from None


def first_line(error: object) -> str:
    return str(error).strip().partition("\n")[0]
