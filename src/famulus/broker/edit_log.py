"""The edits of a broker on disk: an append-only file of records. To it, a record is opaque bytes.

The file is a header and then records, each with a marker, its length and a SHA-256. The marker occurs nowhere else: in
a record that contains it, it is broken up. So after damage the next marker is the next record: a bad record cannot hide
a good one, and the inside of a damaged record cannot be taken for a record that somebody wrote.

    header   "famulus edits\\n", version (2 bytes), CRC-32 of both (4 bytes)
    record   marker (8 bytes), length (4 bytes), SHA-256 (32 bytes), a zero, the record with broken-up markers

Once `append` has returned, its records are on the disk. A crash in the middle of it leaves some of them whole, and a
torn one, which is cut off when the log is opened again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from struct import Struct
from typing import Self
from zlib import crc32

from famulus.broker.folder import lock_file, plainly, replace_file, sync_folder, write_all
from famulus.errors import NotAnEditLog, SettingsError

#: Another version has another marker: what is found in a file with a damaged header is of this version.
VERSION = 1
RECORD_BYTES_MAX = 1024 * 1024

_HEADER = Struct(">14sHI")
_MAGIC = b"famulus edits\n"
#: It has no zero in it, and its first byte occurs only once: so it cannot appear anywhere that it was not put.
_MARK = b"\xedEDIT\r\n"
_MARKER = _MARK + b"\xff"
_BROKEN_UP = _MARK + b"\x00"
#: The zero at the end keeps the last bytes of the hash and the first of the record from forming a marker.
_RECORD = Struct(">8sI32sx")
_BROKEN_UP_BYTES_MAX = RECORD_BYTES_MAX // len(_MARK) * len(_BROKEN_UP) + len(_MARK)


@dataclass(frozen=True, slots=True)
class Damage:
    """A piece of the file that contains no whole record."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size

    def __str__(self) -> str:
        return f"{self.size} bytes at {self.offset}"


@dataclass(frozen=True, slots=True)
class LogContents:
    records: list[bytes]
    #: What was dropped, now or when the log was opened.
    damage: list[Damage]


class EditLog:
    """While open, it belongs to one process; a second one is refused."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._end = 0
        #: What is no longer in the file, but was when we opened it.
        self._cut: list[Damage] = []
        self._fd = _open_alone(path)
        try:
            self._cut = self._mend()
        except BaseException:
            self.close()
            raise

    def read(self) -> LogContents:
        reading = scan(self._contents()[: self._end], _HEADER.size)
        return LogContents(reading.records, self._cut + reading.damage)

    def append(self, records: Iterable[bytes]) -> None:
        """When this returns, they are on the disk. If it raises, the file is as it was."""
        data = self._framed(records)
        with plainly(self._path, "cannot be appended to, and is as it was"):
            try:
                write_all(self._fd, data, self._end)
                os.fsync(self._fd)
            except BaseException:
                # If even this fails, the next record is written over what is left.
                with suppress(OSError):
                    os.ftruncate(self._fd, self._end)
                raise
        self._end += len(data)

    def rewrite(self, records: Iterable[bytes]) -> None:
        """Hold these records and nothing else: after a crash, either all of these or all former ones are there."""
        data = _header() + self._framed(records)
        with plainly(self._path, "cannot be rewritten"):
            fd = replace_file(self._path, data)
            self.close()
            self._fd = fd
            self._end = len(data)
            self._cut = []
            sync_folder(self._path.parent)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        # The descriptor may soon be that of another file.
        self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _mend(self) -> list[Damage]:
        """Cut off what a crash left after the last whole record, and renew a damaged header; returns what was lost."""
        data = self._contents()
        if not data.startswith(_header()):
            return self._renew(data)
        cut = [damage for damage in scan(data, _HEADER.size).damage if damage.end == len(data)]
        self._end = cut[0].offset if cut else len(data)
        if cut:
            with plainly(self._path, "cannot be mended"):
                os.ftruncate(self._fd, self._end)
                os.fsync(self._fd)
        return cut

    def _renew(self, data: bytes) -> list[Damage]:
        """The file is new, or its header was damaged; or it is not ours."""
        reading = read(self._path, data)
        if not reading.records and not _header().startswith(data):
            raise NotAnEditLog(f"{self._path}: is not an edit log; it was left as it is")
        self.rewrite(reading.records)
        return reading.damage

    def _contents(self) -> bytes:
        with plainly(self._path, "cannot be read"), open(self._fd, "rb", closefd=False) as file:
            file.seek(0)
            return file.read()

    def _framed(self, records: Iterable[bytes]) -> bytes:
        framed = []
        for record in records:
            if len(record) > RECORD_BYTES_MAX:
                raise SettingsError(
                    f"{self._path}: a record of {len(record):,} bytes is too large; {RECORD_BYTES_MAX:,} is the most"
                )
            data = record.replace(_MARK, _BROKEN_UP)
            framed += [_RECORD.pack(_MARKER, len(data), sha256(data).digest()), data]
        return b"".join(framed)


def read(path: Path, data: bytes) -> LogContents:
    """What a file with these bytes holds; raises SettingsError if a newer Famulus wrote it."""
    if (version := _version(data)) not in (None, VERSION):
        raise SettingsError(
            f"{path}: has version {version} of the format, and this Famulus knows {VERSION}: it is too old"
        )
    return scan(data, _HEADER.size if data.startswith(_header()) else 0)


def scan(data: bytes, offset: int) -> LogContents:
    """Every whole record from here on, and every damaged piece between them."""
    reading = LogContents([], [])
    while offset < len(data):
        record, end = _record_at(data, offset)
        if record is not None:
            reading.records.append(record)
        elif reading.damage and reading.damage[-1].end == offset:
            reading.damage[-1] = Damage(reading.damage[-1].offset, end - reading.damage[-1].offset)
        else:
            reading.damage.append(Damage(offset, end - offset))
        offset = end
    return reading


def _record_at(data: bytes, offset: int) -> tuple[bytes | None, int]:
    """The whole record that begins here, or None, and where to look next."""
    if data.startswith(_MARKER, offset) and offset + _RECORD.size <= len(data):
        _, size, checksum = _RECORD.unpack_from(data, offset)
        begin = offset + _RECORD.size
        end = begin + size
        # Not hashed until the length is known to be possible: it may be damaged too.
        if size <= _BROKEN_UP_BYTES_MAX and end <= len(data) and sha256(data[begin:end]).digest() == checksum:
            return data[begin:end].replace(_BROKEN_UP, _MARK), end
    marker = data.find(_MARKER, offset + 1)
    return None, marker if marker >= 0 else len(data)


def _header() -> bytes:
    checked = _HEADER.pack(_MAGIC, VERSION, 0)[:-4]
    return checked + crc32(checked).to_bytes(4, "big")


def _version(data: bytes) -> int | None:
    """What an undamaged header says; None if there is none."""
    if len(data) < _HEADER.size:
        return None
    magic, version, checksum = _HEADER.unpack_from(data)
    return version if magic == _MAGIC and checksum == crc32(data[: _HEADER.size - 4]) else None


def _open_alone(path: Path) -> int:
    while True:
        with plainly(path, "cannot be opened"):
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise SettingsError(f"{path}: is not a file")
                lock_file(fd, path)
                # While we waited, it may have been replaced by another file, and have no name any more.
                if os.path.samestat(os.fstat(fd), path.stat()):
                    return fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)
