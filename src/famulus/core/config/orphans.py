"""Edits that arrived before those they build upon. Bounded: the oldest make room, and are pulled again some day."""

from __future__ import annotations

from typing import Final

from famulus.core.config.edit import SignedEdit

ORPHANS_MAX: Final = 10_000
#: Of JSON, which takes several times as much memory once it is read.
ORPHAN_BYTES_MAX: Final = 8 * 1024 * 1024


class Orphans:
    """Keyed by edit and signature: the same edit with a false signature must not take the place of the genuine one."""

    def __init__(self) -> None:
        self._missing: dict[SignedEdit, set[str]] = {}
        self._waiting_for: dict[str, dict[SignedEdit, None]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._missing)

    def __contains__(self, signed: object) -> bool:
        return signed in self._missing

    def put(self, signed: SignedEdit, missing: set[str]) -> None:
        """Keep it until all of the missing ones are there."""
        if signed in self._missing:
            return
        self._missing[signed] = missing
        self._bytes += _size(signed)
        for edit_id in missing:
            self._waiting_for.setdefault(edit_id, {})[signed] = None
        while len(self._missing) > ORPHANS_MAX or self._bytes > ORPHAN_BYTES_MAX:
            self._forget(next(iter(self._missing)))

    def release(self, edit_id: str) -> list[SignedEdit]:
        """This edit has arrived: the ones that now lack nothing."""
        ready = []
        for signed in self._waiting_for.pop(edit_id, ()):
            missing = self._missing[signed]
            missing.discard(edit_id)
            if not missing:
                del self._missing[signed]
                self._bytes -= _size(signed)
                ready.append(signed)
        return ready

    def missing(self) -> list[str]:
        """The edits that they wait for, except those that wait here themselves."""
        return sorted(self._waiting_for.keys() - {signed.id for signed in self._missing})

    def _forget(self, signed: SignedEdit) -> None:
        self._bytes -= _size(signed)
        for edit_id in self._missing.pop(signed):
            line = self._waiting_for[edit_id]
            del line[signed]
            if not line:
                del self._waiting_for[edit_id]


def _size(signed: SignedEdit) -> int:
    return len(signed.data) + len(signed.signature) + sum(map(len, signed.proofs))
