"""Decides which edits do not count because whoever made them had no right to. Every broker does this, for every edit.

Rights are checked where an admin makes an edit, but a broker that was tampered with does not check them, and may sign
what it likes. So everybody who hears of an edit checks them again. An edit without rights stays in the set, like what
forgotten brokers said: sets must be able to become equal. But it is nobody's head, and it is listed.

What an edit needs:

- the proof of an admin of each family that its key belongs to, as things are before it and as it wants them; what
  belongs to no family, or to one without admins, may be changed by any admin (`authority` says who is one);
- a broker alone may make known another one that joins, with the state `active` and a family without settings other
  than that it wants keys, as long as nothing exists in their places; and the root may make its family's first admin.
  Nothing else.

The edits of a key are processed one by one, each after its parents: those that build upon others in the order of their
clocks, and before any that claims to be the first of its key. Of the latter, those whose brokers are most senior come
first. So whoever sets its clock back, to be there before its key was given to others, loses to their later edits; and
whoever sets it forward comes too late.

Pure and total, and independent of the order in which the edits arrived.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from famulus.core.config import schema
from famulus.core.config.authority import PREFIX as ADMIN
from famulus.core.config.authority import Authority, Root, authority
from famulus.core.config.edit import Edit, SignedEdit, named_by, public_key_in
from famulus.core.config.heads import Heads
from famulus.core.config.order import Place, in_causal_order
from famulus.core.config.revocation import broker_ranks, replaced_by, revoked_key

BROKER: Final = "broker/"
#: What a broker alone may say of a family.
NEW_FAMILIES: Final[tuple[dict[str, str], ...]] = ({}, {"keys": "remote"}, {"keys": "all"})

_NO_PROOF: Final = "it lacks the proof of an admin"
_NO_ADMIN: Final = "its author is not an admin"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything known about the edits of a network. It only grows, each edit after those that it names."""

    #: By their ids.
    edits: dict[str, SignedEdit] = field(default_factory=dict)
    by_key: dict[str, list[SignedEdit]] = field(default_factory=dict)
    about_admins: list[SignedEdit] = field(default_factory=list)
    #: The public keys of the brokers that signed them.
    signers: dict[str, str] = field(default_factory=dict)
    #: Their clocks, but never earlier than those of the edits that they name.
    times: dict[str, int] = field(default_factory=dict)
    #: Those that do not count for some other reason.
    void: Collection[str] = frozenset()

    def add(self, signed: SignedEdit, signer: str) -> None:
        edit = signed.edit
        self.edits[signed.id] = signed
        self.by_key.setdefault(edit.key, []).append(signed)
        if edit.key.startswith(ADMIN):
            self.about_admins.append(signed)
        self.signers[signed.id] = signer
        self.times[signed.id] = max(edit.hlc, max((self.times[each] for each in named_by(edit)), default=0))

    def with_more(self, signed: Sequence[SignedEdit], signers: Sequence[str]) -> Evidence:
        """The evidence as if these edits were here."""
        more = Evidence(
            dict(self.edits), dict(self.by_key), [*self.about_admins], dict(self.signers), dict(self.times), self.void
        )
        for each in signed:
            more.by_key[each.edit.key] = [*more.by_key.get(each.edit.key, ())]
        for each, signer in zip(signed, signers, strict=True):
            more.add(each, signer)
        return more


@dataclass(slots=True)
class Memory:
    """What was found out about each key; it holds as long as what it is based on stays the same."""

    ground: object = None
    #: By key: the number of edits judged, since a set only grows; and why some of them do not count.
    keys: dict[str, tuple[int, Mapping[str, str]]] = field(default_factory=dict)

    def copy(self) -> Memory:
        return Memory(self.ground, dict(self.keys))


def judge(evidence: Evidence, memory: Memory) -> dict[str, str]:
    """Why edits do not count, by their ids. `memory`, kept for this set, saves judging what cannot have changed."""
    root = _root(evidence)
    if root is None:
        return {}
    return _Judge(evidence, root).run(memory)


class _Judge:
    def __init__(self, evidence: Evidence, root: Root) -> None:
        self._evidence = evidence
        about_admins = [signed for signed in evidence.about_admins if signed.id not in evidence.void]
        self._authority: Authority = authority(about_admins, evidence.signers, evidence.times, root)
        self._ranks = broker_ranks(_about_brokers(evidence), evidence.signers, {})
        self._why: dict[str, str] = {}
        self._void_before = dict.fromkeys(evidence.void, "")
        #: The family that each broker belongs to, or last belonged to, by the broker's key in the config.
        self._homes: dict[str, str] = {}
        #: By public key: who first made it known, and for which key of the config.
        self._introduced: dict[str, tuple[tuple[int, int, str], str]] = {}

    def run(self, memory: Memory) -> dict[str, str]:
        by_key = self._evidence.by_key
        # Brokers first: they determine whose a state or a revocation is.
        for key in sorted(key for key in by_key if key.startswith(BROKER)):
            self._go_through(schema.subject(key), by_key[key])
        self._judge_admins()
        found = self._why
        ground = (self._authority, self._ranks, self._homes, self._introduced, frozenset(self._evidence.void))
        if memory.ground != ground:
            memory.ground = ground
            memory.keys.clear()
        for key, edits in by_key.items():
            if not key.startswith((BROKER, ADMIN)):
                known = memory.keys.get(key)
                if known is None or known[0] != len(edits):
                    self._why = {}
                    self._go_through(schema.subject(key), edits)
                    memory.keys[key] = known = (len(edits), self._why)
                found.update(known[1])
        return found

    def _judge_admins(self) -> None:
        for signed in self._evidence.about_admins:
            if signed.id in self._authority.families or signed.id in self._evidence.void:
                continue
            about = schema.subject(signed.edit.key)
            if not signed.edit.author_grants:
                self._why[signed.id] = _NO_PROOF
            elif self._authority.speaks_for(signed.edit.author_grants) is None:
                self._why[signed.id] = _NO_ADMIN
            elif about.kind:
                self._why[signed.id] = _not_theirs(about.family)

    def _go_through(self, about: schema.Subject, edits: Sequence[SignedEdit]) -> None:
        heads = Heads()
        passed: set[str] = set()
        # Grows while the edits are processed.
        void = ChainMap(self._why, self._void_before)
        for signed in in_causal_order(edits, partial(self._place, about)):
            if signed.id in self._evidence.void:
                continue
            why = self._objection(about, signed, heads)
            if why:
                self._why[signed.id] = why
                continue
            for replaced in replaced_by(signed, self._evidence.edits, void, passed):
                heads.discard(replaced)
            heads.add(signed)
            if about.kind == "broker":
                self._note_broker(signed)

    def _place(self, about: schema.Subject, signed: SignedEdit) -> Place:
        time = self._evidence.times[signed.id]
        if signed.edit.parents:
            return (0, 0, 0, time)
        # A family that came with a joining broker has no settings: it must not take the place of one that has.
        alone = about.kind == "family" and not signed.edit.author_grants
        return (1, alone, self._rank(signed), time)

    def _rank(self, signed: SignedEdit) -> int:
        return self._ranks.get(self._evidence.signers[signed.id], len(self._ranks))

    def _note_broker(self, signed: SignedEdit) -> None:
        edit = signed.edit
        self._homes[edit.key] = schema.owner_in("broker", edit.value) or self._homes.get(edit.key, "")
        public_key = public_key_in(edit)
        if public_key:
            when = (self._rank(signed), self._evidence.times[signed.id], signed.id)
            self._introduced[public_key] = min(self._introduced.get(public_key, (when, edit.key)), (when, edit.key))

    # -- one edit -----------------------------------------------------------------------------------------------

    def _objection(self, about: schema.Subject, signed: SignedEdit, heads: Heads) -> str:
        edit = signed.edit
        if not edit.author_grants:
            return "" if not edit.grant or _may_alone(about, edit, heads) else _NO_PROOF
        families = self._authority.speaks_for(edit.author_grants)
        if families is None:
            return _NO_ADMIN
        time = self._evidence.times[signed.id]
        chosen = heads.chosen
        for family in sorted(self._touched(about, edit, chosen.edit if chosen is not None else None)):
            if not self._authority.allows(families, family, time):
                return _not_theirs(family)
        return ""

    def _touched(self, about: schema.Subject, edit: Edit, current: Edit | None) -> set[str]:
        """The families that an edit concerns: as things are, and as they would be."""
        if about.kind == "family":
            return {about.name}
        families: set[str] = set()
        if about.kind == "broker_state":
            families.add(self._homes.get(f"broker/{about.name}", ""))
        if about.kind == "revoked":
            _, key = self._introduced.get(revoked_key(edit.key), (None, ""))
            families.add(self._homes.get(key, ""))
        values = [each.value for each in (edit, current) if each is not None]
        if about.kind == "principal":
            families.update(*map(schema.families_in, values))
        if about.kind in schema.OWNED:
            families |= {schema.owner_in(about.kind, value) for value in values}
        return families - {""}


def _may_alone(about: schema.Subject, edit: Edit, heads: Heads) -> bool:
    """Whether a broker may say this without an admin."""
    if edit.op != "PUT":
        return False
    if about.kind == "family":
        return edit.value in NEW_FAMILIES and not heads.proven
    if about.kind == "broker_state" and edit.value != {"state": "active"}:
        return False
    return about.kind in ("broker", "broker_state") and not heads.there


def _not_theirs(family: str) -> str:
    return f"it is about family {family!r}, of which its author is not an admin"[:200]


def _about_brokers(evidence: Evidence) -> dict[str, SignedEdit]:
    return {signed.id: signed for key, edits in evidence.by_key.items() if key.startswith(BROKER) for signed in edits}


def _root(evidence: Evidence) -> Root | None:
    """None if this network was made before edits had proofs."""
    firsts = [signed for signed in _about_brokers(evidence).values() if not signed.edit.grant]
    if not any(signed.edit.proofs_needed for signed in firsts):
        return None
    first = min(firsts, key=lambda signed: (evidence.times[signed.id], signed.id))
    return Root(evidence.signers[first.id], schema.owner_in("broker", first.edit.value))
