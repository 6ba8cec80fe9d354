"""Makes ids for tasks that came without one: UUIDs, as JSON texts. The random part is passed in."""

from __future__ import annotations

from typing import Final

_BLOCK: Final = 4096
#: How the ids of a block end, with the closing quote: every task needs an id, and formatting is expensive.
_ENDS: Final = [b'%03x"' % number for number in range(_BLOCK)]


class MessageIds:
    """A random part for this life of the dispatcher, and a 48-bit counter."""

    def __init__(self, chance: int) -> None:
        digits = f"{chance & 0xFFFFFFFFFFFFFFFF:016x}"
        #: How they all begin.
        self.head = f'"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-a{digits[13:16]}-'.encode()
        self._count = 0
        self._block = b""

    def next(self) -> bytes:
        self._count += 1
        place = self._count % _BLOCK
        if place == 0 or not self._block:
            self._block = b"%b%09x" % (self.head, self._count // _BLOCK)
        return self._block + _ENDS[place]
