"""An invented disk with a log of records on it. What was not synced is gone after a crash, or half of it is.

Each record has a hash, so that a damaged one is recognised and dropped.
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
        self.records: tuple[bytes, ...] = ()
        self.unsynced: tuple[bytes, ...] = ()
        #: The next sync kills the process.
        self.armed = False

    def append(self, signed: SignedEdit) -> None:
        body = _encode(signed)
        self.unsynced += (sha256(body).digest() + body,)

    def sync(self) -> None:
        if self.armed:
            self.armed = False
            raise SimulatedCrash
        self.records += self.unsynced
        self.unsynced = ()

    def read(self) -> list[SignedEdit]:
        """What a process that starts now finds."""
        halves = [(record[:_HASH_BYTES], record[_HASH_BYTES:]) for record in self.records]
        return [_decode(body) for digest, body in halves if sha256(body).digest() == digest]

    # -- faults -------------------------------------------------------------------------------------------------

    def restore(self, backup: tuple[bytes, ...] = ()) -> None:
        """What is there now is lost."""
        self.records, self.unsynced = backup, ()

    def crash(self, random: Random) -> None:
        """Some of what was not synced may have reached the disk, and part of one more record."""
        if self.unsynced:
            arrived = random.randint(0, len(self.unsynced))
            self.records += self.unsynced[:arrived]
            torn = self.unsynced[arrived : arrived + 1]
            self.records += tuple(record[: random.randrange(len(record))] for record in torn)
            self.unsynced = ()

    def damage(self, random: Random) -> None:
        """One byte changes."""
        if self.records:
            at = random.randrange(len(self.records))
            record = bytearray(self.records[at])
            if record:
                record[random.randrange(len(record))] ^= random.randint(1, 255)
            self.records = (*self.records[:at], bytes(record), *self.records[at + 1 :])
