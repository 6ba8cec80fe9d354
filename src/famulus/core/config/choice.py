"""Decides which of several heads counts, the same on every broker. Never ends a conflict: only an admin's edit does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from famulus.core.config import schema
from famulus.core.config.edit import Edit, SignedEdit

#: Kinds for which the safe choice is the one that allows the least.
GUARDED: Final = frozenset({"admin", "broker_state", "principal"})

_UNREADABLE: Final = len(schema.STATES)
_DELETED: Final = _UNREADABLE + 1


def choose(heads: Sequence[SignedEdit]) -> SignedEdit:
    """Of what restricts somebody the most restrictive one; otherwise, and among equals, the latest."""
    if len(heads) == 1:
        return heads[0]
    return max(heads, key=weight)


def weight(signed: SignedEdit) -> tuple[int, int, str]:
    """The head with the greatest weight counts."""
    return (_restriction(signed.edit), signed.edit.hlc, signed.id)


def _restriction(edit: Edit) -> int:
    about = schema.subject(edit.key)
    if about.kind == "worker":
        # Without a key it is active: so what is deleted or unreadable restricts nothing.
        value = schema.read(about, edit.value).value if edit.op == "PUT" else None
        return int(isinstance(value, schema.Worker) and value.state == "drained")
    if about.kind not in GUARDED:
        return 0
    if edit.op == "DEL":
        return _DELETED
    value = schema.read(about, edit.value).value
    if value is None:
        return _UNREADABLE
    return schema.STATES.index(value.state) if isinstance(value, schema.BrokerState) else 0
