"""Decides who the admins of each family are: by the edits that made them admins, and by who made those edits.

The network's first admin is made by the root alone, for the root's own family. Any other admin is made by an admin of
the same family; or, if that family has none, by an admin of another family, who thereby gives the family away. If
several have done that, the first one counts: the one whose author is most senior, that is, the fewest steps away from
the network's first admin, and among equals the one with the earliest clock.

A clock can be set back, but not to before what the edit itself names. So nobody can claim to have been there before
those who made it an admin, or who let its broker join; but whoever gave a family away could pretend to have given it to
somebody else earlier. Whoever made somebody an admin is senior to it, as among brokers.

Pure, and independent of the order in which the edits arrived: equal sets give the same admins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from famulus.core.config import schema
from famulus.core.config.choice import choose
from famulus.core.config.edit import Edit, SignedEdit, public_key_in
from famulus.core.config.revocation import heads_among

PREFIX: Final = "admin/"
#: How often a family whose admins are all gone can be given away again; bounded, since anybody can make edits.
ROUNDS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Root:
    """The network's first broker."""

    public_key: str
    family: str


@dataclass(frozen=True, slots=True)
class Gift:
    """How a family got its first admin."""

    #: The families whose admin the author acted as; none for the root's own family.
    by: frozenset[str]
    time: int


@dataclass(frozen=True)
class Authority:
    #: The family of each edit about admins that counts, by the edit's id.
    families: Mapping[str, str] = field(default_factory=dict)
    gifts: Mapping[str, Gift] = field(default_factory=dict)
    #: Families that have an admin now.
    held: frozenset[str] = frozenset()

    def speaks_for(self, grants: Iterable[str]) -> frozenset[str] | None:
        """The families that somebody with these grants speaks for; None if it is not the admin it claims to be."""
        families = [self.families.get(grant) for grant in grants]
        return None if None in families else frozenset(family for family in families if family is not None)

    def allows(self, families: frozenset[str], family: str, time: int) -> bool:
        """Whether admins of these families may change what belongs to that one."""
        if family in families or family not in self.held:
            return True
        # What belongs to a family often exists before its first admin does.
        gift = self.gifts.get(family)
        return gift is not None and time < gift.time and not gift.by.isdisjoint(families)


def authority(
    edits: Iterable[SignedEdit], signers: Mapping[str, str], times: Mapping[str, int], root: Root
) -> Authority:
    """`edits` are those about admins, each after the edits that it names."""
    asked = _Asked(edits, signers, times, root)
    again: set[str] = set()
    for _ in range(ROUNDS_MAX):
        found, late = asked.decide(again)
        vacant = [edit_id for edit_id, family in late if family not in found.held]
        if not vacant:
            break
        again.add(vacant[0])
    return found


class _Asked:
    """The edits about admins, in the order in which they are decided: most senior first."""

    def __init__(
        self, edits: Iterable[SignedEdit], signers: Mapping[str, str], times: Mapping[str, int], root: Root
    ) -> None:
        self._root = root
        self._signers = signers
        self._times = times
        ranks: dict[str, int] = {}
        found = []
        for signed in edits:
            about = schema.subject(signed.edit.key)
            if about.kind == "admin":
                grants = signed.edit.author_grants
                ranks[signed.id] = rank = 1 + max((ranks.get(grant, 0) for grant in grants), default=-1)
                found.append((rank, times[signed.id], signed.id, signed, about.family))
        self._ordered = [(signed, family) for *_, signed, family in sorted(found, key=lambda each: each[:3])]

    def decide(self, again: set[str]) -> tuple[Authority, list[tuple[str, str]]]:
        """Who counts; and later gifts of families already given away, which count only if they are in `again`."""
        families: dict[str, str] = {}
        gifts: dict[str, Gift] = {}
        late: list[tuple[str, str]] = []
        for signed, family in self._ordered:
            edit = signed.edit
            by = Authority(families).speaks_for(edit.author_grants)
            if not edit.author_grants:
                counts = self._is_first(signed, family)
            elif by is None or family in by:
                counts = by is not None
            else:
                counts = makes_admin(edit) and (family not in gifts or signed.id in again)
                if makes_admin(edit) and not counts:
                    late.append((signed.id, family))
            if counts:
                families[signed.id] = family
                gifts.setdefault(family, Gift(by or frozenset(), self._times[signed.id]))
        return Authority(families, gifts, self._held(families)), late

    def _is_first(self, signed: SignedEdit, family: str) -> bool:
        root = self._root
        return makes_admin(signed.edit) and family == root.family and self._signers[signed.id] == root.public_key

    def _held(self, families: Mapping[str, str]) -> frozenset[str]:
        by_key: dict[tuple[str, str], list[SignedEdit]] = {}
        for signed, family in self._ordered:
            by_key.setdefault((family, signed.edit.key), []).append(signed)
        held = set()
        for (family, _), edits in by_key.items():
            void = frozenset(signed.id for signed in edits if signed.id not in families)
            heads = list(heads_among(edits, void).values())
            if heads and makes_admin(choose(heads).edit):
                held.add(family)
        return frozenset(held)


def makes_admin(edit: Edit) -> bool:
    """Whether it names a key with which an admin can prove anything."""
    return edit.op == "PUT" and public_key_in(edit) != ""
