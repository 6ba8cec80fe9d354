"""What an admin wants to change, who that is, and whether the key is still what the admin saw.

A broker turns it into an edit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from famulus.core.config.choice import choose
from famulus.core.config.edit import PARENTS_MAX, Edit, SignedEdit, Signer
from famulus.core.config.edit_set import EditSet


@dataclass(frozen=True)
class Author:
    """Whose edit it is, and what proves that."""

    name: str
    #: What signs for an admin, by the ids of the edits that made the public keys known; empty for a broker alone.
    signers: Mapping[str, Signer] = field(default_factory=dict, repr=False)
    #: The families that it is an admin of.
    families: tuple[str, ...] = ()


class Draft(Struct, frozen=True):
    key: str
    op: Literal["PUT", "DEL"]
    value: Any
    #: The heads that the admin saw.
    parents: tuple[str, ...]


class FieldChange(Struct, frozen=True, omit_defaults=True):
    """A field as the admin saw it and as it is now; unset where it did not exist, or no longer does."""

    #: Empty for the value as a whole, if that is not an object.
    field: str
    seen: Any | UnsetType = UNSET
    now: Any | UnsetType = UNSET


class Moved(Struct, frozen=True):
    """The key is not what the admin saw: look again."""

    key: str
    heads: tuple[str, ...]
    difference: tuple[FieldChange, ...]
    #: Edits that the admin saw elsewhere, and that are not here yet.
    unknown: tuple[str, ...] = ()


def parents_for(edits: EditSet, key: str) -> tuple[str, ...]:
    """The heads that an edit of this key must name: all, unless there are too many for one edit."""
    return tuple(signed.id for signed in edits.heads(key)[:PARENTS_MAX])


def check(edits: EditSet, draft: Draft) -> Moved | None:
    """None if the admin saw what is there now."""
    heads = parents_for(edits, draft.key)
    if tuple(sorted(draft.parents)) == heads:
        return None
    seen = [signed for parent in draft.parents if (signed := edits.get(parent)) is not None]
    return Moved(
        draft.key,
        heads,
        difference(_value_of(seen), _value_of(edits.heads(draft.key))),
        tuple(parent for parent in draft.parents if parent not in edits),
    )


def make(draft: Draft, author: Author, network: str, broker: str, grant: str, hlc: int, nonce: str) -> Edit:
    return Edit(
        network=network,
        key=draft.key,
        op=draft.op,
        value=draft.value,
        parents=tuple(sorted(draft.parents)),
        author=author.name,
        broker=broker,
        grant=grant,
        hlc=hlc,
        nonce=nonce,
        author_grants=tuple(sorted(author.signers)),
    )


def _value_of(heads: list[SignedEdit] | tuple[SignedEdit, ...]) -> Any:
    if not heads:
        return UNSET
    chosen = choose(heads).edit
    return chosen.value if chosen.op == "PUT" else UNSET


def difference(seen: Any, now: Any) -> tuple[FieldChange, ...]:
    """What changed between two values, field by field. `UNSET` stands for a key that is not there."""
    if not isinstance(seen, dict) or not isinstance(now, dict):
        return () if _same(seen, now) else (FieldChange("", seen, now),)
    return tuple(
        FieldChange(field, seen.get(field, UNSET), now.get(field, UNSET))
        for field in sorted(seen.keys() | now.keys())
        if not _same(seen.get(field, UNSET), now.get(field, UNSET))
    )


def _same(one: Any, other: Any) -> bool:
    # Python treats True as equal to 1; JSON does not.
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
