"""The heads of one key while its edits are processed: which of them counts is known at once, however many there are.

Whoever signs edits decides how many heads a key has; looking at all of them for each edit could take minutes.
"""

from __future__ import annotations

from heapq import heappop, heappush

from famulus.core.config.choice import weight
from famulus.core.config.edit import SignedEdit


class Heads:
    def __init__(self) -> None:
        self._heads: dict[str, SignedEdit] = {}
        #: Greatest weight first; heads that have been replaced are dropped when they come to the top.
        self._line: list[tuple[int, int, str]] = []
        #: How many have an admin's proof, and how many are not deletions.
        self.proven = 0
        self.there = 0

    def add(self, signed: SignedEdit) -> None:
        self._heads[signed.id] = signed
        self._count(signed, 1)
        restriction, hlc, edit_id = weight(signed)
        heappush(self._line, (-restriction, -hlc, _backwards(edit_id)))

    def discard(self, edit_id: str) -> None:
        signed = self._heads.pop(edit_id, None)
        if signed is not None:
            self._count(signed, -1)

    def _count(self, signed: SignedEdit, by: int) -> None:
        self.proven += by * bool(signed.edit.author_grants)
        self.there += by * (signed.edit.op != "DEL")

    @property
    def chosen(self) -> SignedEdit | None:
        """The one that counts; None if there is none."""
        while self._line:
            signed = self._heads.get(_backwards(self._line[0][-1]))
            if signed is not None:
                return signed
            heappop(self._line)
        return None


#: Ids are hexadecimal: the greatest sorts first if each digit is subtracted from fifteen.
_DIGITS = str.maketrans("0123456789abcdef", "fedcba9876543210")


def _backwards(edit_id: str) -> str:
    return edit_id.translate(_DIGITS)
