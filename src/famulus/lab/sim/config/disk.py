"""An invented disk with a log of records on it. What was not synced is gone after a crash, or half of it is.

Each record has a hash, so that a damaged one is known and dropped.
"""

from __future__ import annotations

from hashlib import sha256
from random import Random

from msgspec.msgpack import Decoder, Encoder

from famulus.core.config.edit import SignedEdit

_HASH_BYTES = 32

_encode = Encoder().encode
_decode = Decoder(SignedEdit).decode


class SimulatedCrash(Exception):
    """The process died in the middle of what it was doing."""


class Disk:
    def __init__(self) -> None:
        self._records: tuple[bytes, ...] = ()
        self._unsynced: tuple[bytes, ...] = ()
        #: The next sync is the end of the process.
        self.armed = False

    def append(self, signed: SignedEdit) -> None:
        body = _encode(signed)
        self._unsynced += (sha256(body).digest() + body,)

    def sync(self) -> None:
        if self.armed:
            self.armed = False
            raise SimulatedCrash
        self._records += self._unsynced
        self._unsynced = ()

    def wipe(self) -> None:
        """A fault, or a mutant."""
        self._records = self._unsynced = ()

    @property
    def unsynced(self) -> bool:
        return bool(self._unsynced)

    def read(self) -> list[SignedEdit]:
        """What a process finds that starts now."""
        found = [_read(record) for record in self._records]
        return [signed for signed in found if signed is not None]

    def back_up(self) -> tuple[bytes, ...]:
        return self._records

    # -- faults -------------------------------------------------------------------------------------------------

    def restore(self, backup: tuple[bytes, ...]) -> None:
        self._records, self._unsynced = backup, ()

    def crash(self, random: Random) -> None:
        """Some of what was not synced may have reached the disk, and of the last record a part."""
        if self._unsynced:
            arrived = random.randint(0, len(self._unsynced))
            self._records += self._unsynced[:arrived]
            torn = self._unsynced[arrived : arrived + 1]
            self._records += tuple(record[: random.randrange(len(record))] for record in torn)
            self._unsynced = ()

    def damage(self, random: Random) -> None:
        """One byte is not what it was."""
        if self._records:
            at = random.randrange(len(self._records))
            record = bytearray(self._records[at])
            if record:
                record[random.randrange(len(record))] ^= random.randint(1, 255)
            self._records = (*self._records[:at], bytes(record), *self._records[at + 1 :])


def _read(record: bytes) -> SignedEdit | None:
    digest, body = record[:_HASH_BYTES], record[_HASH_BYTES:]
    return _decode(body) if sha256(body).digest() == digest else None
