"""What must hold after every change, and at the end, according to what an outside observer wrote down in a ledger.

Each check says in words what was broken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from famulus.core.config.edit import SignedEdit, named_by
from famulus.core.config.edit_set import EditSet
from famulus.core.config.effective import Effective
from famulus.lab.sim.config.pen import CHIEF, EVE, KEPT
from famulus.lab.sim.config.steward import Steward
from famulus.lab.sim.invariants import Invariant, demand

#: In everything that is forged, so that it is recognised wherever it turns up.
FORGED: Final[dict[str, Any]] = {
    "hash": "forged",
    "heartbeat_ms": 66,
    "host": "forged.example",
    "owner": "c",
    "max_attempts": 6,
}


#: What principals may call and serve, or not; and services of which some are allowed by each of these.
PATTERNS: Final = ["*", "e*", "echo", "other"]
SERVICES: Final = ("echo", "else", "other")


@dataclass(slots=True)
class Page:
    """What one steward has shown so far, and so must show from now on."""

    ids: set[str] = field(default_factory=set)
    heads: dict[str, set[str]] = field(default_factory=dict)
    #: Whether it knew by then who owns the families.
    knew_owners: bool = True


@dataclass(slots=True)
class Ledger:
    """What was acknowledged, and what each steward had on its disk."""

    pages: dict[str, Page] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    #: What faults took from the last disk that it was on: it is gone, and nobody is to blame.
    taken: set[str] = field(default_factory=set)
    #: By digest: what the edits amount to.
    amounts: dict[str, bytes] = field(default_factory=dict)

    def note(self, name: str, edits: EditSet) -> None:
        keys = edits.keys()
        heads = {key: {signed.id for signed in edits.heads(key)} for key in keys}
        self.pages[name] = Page({signed.id for signed in edits}, heads, knows_owners(edits))

    def note_loss(self, name: str, edits: EditSet) -> None:
        """A fault struck its disk, and this is what is left."""
        lost = {edit_id for edit_id in self.pages[name].ids if edit_id not in edits}
        self.note(name, edits)
        # What somebody else has on disk has to come back.
        self.taken |= lost.difference(*(page.ids for page in self.pages.values()))


def knows_owners(edits: EditSet) -> bool:
    """Whether it says who the admins of the families are, and who owns what. Until then anybody seems to own all."""
    if not edits.needs_proofs:
        return len(edits) > 0
    keys = (*(person.key for person in CHIEF), f"service/{KEPT}")
    return all(any(not is_forged(head) for head in edits.heads(key)) for key in keys)


def is_forged(signed: SignedEdit) -> bool:
    """Only a modified broker signs anything as hers. If it crashes then, it may have it on disk, and told nobody."""
    return signed.edit.author == EVE.name


def check_growth(ledger: Ledger, steward: Steward, new: Sequence[SignedEdit]) -> None:
    """After a steward has taken edits or restarted, and before anybody hears of it."""
    edits, page = steward.edits, ledger.pages[steward.name]
    demand(not steward.disk.unsynced, Invariant.SAFETY, f"{steward.name} speaks before its edits are on disk")
    lost = [edit_id for edit_id in page.ids if edit_id not in edits]
    demand(not lost, Invariant.SAFETY, f"{steward.name} lost {len(lost)} edits, and no fault took them")
    check_closure(edits, new)
    if page.knew_owners:
        check_heads(page.heads, edits, new)
        page.ids.update(signed.id for signed in new)
    else:
        ledger.note(steward.name, edits)


def check_closure(edits: EditSet, new: Iterable[SignedEdit]) -> None:
    for signed in new:
        closed = all(edit_id in edits for edit_id in named_by(signed.edit))
        demand(closed, Invariant.CLOSURE, f"{signed.id} is there without what it builds upon")


def check_heads(before: dict[str, set[str]], edits: EditSet, new: Sequence[SignedEdit]) -> None:
    """Only new edits become heads, and a head is ended only by an edit that names it. Brings `before` up to date."""
    came = {signed.id for signed in new}
    named = {parent for signed in new for parent in signed.edit.parents}
    for key in {signed.edit.key for signed in new}:
        was, now = before.get(key, set()), {signed.id for signed in edits.heads(key)}
        demand(now - was <= came, Invariant.HEADS, f"a superseded edit of {key} is a head again")
        demand(was - now <= named, Invariant.HEADS, f"a head of {key} is gone, and no edit names it")
        before[key] = now


def check_reading(ledger: Ledger, edits: EditSet, amount: Effective) -> None:
    """Compares what the edits amount to with the heads that one finds by looking at every edit."""
    if knows_owners(edits):
        if edits.needs_proofs:
            check_boundary(amount)
        check_meaning(plain_heads([signed for signed in edits if not is_forged(signed)]), amount)
    written = amount.to_bytes()
    before = ledger.amounts.setdefault(edits.digest, written)
    demand(before == written, Invariant.AGREEMENT, "equal digests, but not an equal config")


def check_meaning(heads: Mapping[str, Sequence[SignedEdit]], amount: Effective) -> None:
    conflicts = {key: {signed.id for signed in several} for key, several in heads.items() if len(several) > 1}
    listed = {conflict.key: {head.id for head in conflict.heads} for conflict in amount.conflicts}
    differ = sorted(listed.keys() ^ conflicts.keys())
    demand(listed == conflicts, Invariant.CONFLICTS, f"conflicts about {differ} are not listed rightly")
    for key, several in heads.items():
        _check_guarded(key, several, amount)


def _check_guarded(key: str, heads: Sequence[SignedEdit], amount: Effective) -> None:
    kind, _, name = key.partition("/")
    deleted = any(signed.edit.op == "DEL" for signed in heads)
    if kind == "admin" and deleted:
        family, _, admin = name.partition("/")
        demand(admin not in amount.admins.get(family, {}), Invariant.RIGHTS, f"{key} was revoked and is authorised")
    if kind == "principal":
        _check_principal(name, heads, amount)
    if kind == "worker":
        wanted = any(signed.edit.op == "PUT" and signed.edit.value["state"] == "drained" for signed in heads)
        found = amount.workers.get(name)
        is_drained = found is not None and found.state == "drained"
        demand(is_drained == wanted, Invariant.RIGHTS, f"whether {name} is drained is not what all edits say")
    if kind == "broker_state" and name in amount.brokers:
        disabled = deleted or any(signed.edit.value == {"state": "disabled"} for signed in heads)
        is_so = amount.broker_states[name] == "disabled"
        demand(is_so or not disabled, Invariant.RIGHTS, f"{key} was disabled and is not")


def _check_principal(name: str, heads: Sequence[SignedEdit], amount: Effective) -> None:
    """It has what all heads give it, and nothing else."""
    found = amount.principals.get(name)
    all_give: list[dict[str, Any]] = [signed.edit.value for signed in heads if signed.edit.op == "PUT"]
    is_revoked = len(all_give) < len(heads)
    if found is None or is_revoked:
        demand(found is None, Invariant.RIGHTS, f"{name} was revoked and may come")
        demand(is_revoked, Invariant.RIGHTS, f"{name} was not revoked, and is gone")
        return
    keys = set.intersection(*(set(value["public_keys"]) for value in all_give))
    demand(set(found.public_keys) == keys, Invariant.RIGHTS, f"{name} may come with other keys than all edits say")
    for what, patterns in (("call", found.call), ("serve", found.serve)):
        for service in SERVICES:
            given = all(_allow(value[what], service) for value in all_give)
            it_may = _allow(patterns, service)
            demand(it_may == given, Invariant.RIGHTS, f"whether {name} may {what} {service} is not what all edits say")


def _allow(patterns: Collection[str], service: str) -> bool:
    return not {"*", service[:1] + "*", service}.isdisjoint(patterns)


def check_boundary(amount: Effective) -> None:
    """Nothing of another family comes from the admin of the modified broker; all that it forges can be recognised."""
    for family, admins in amount.admins.items():
        at_home = EVE.name not in admins or family == EVE.family
        demand(at_home, Invariant.BOUNDARY, f"{EVE.name} has become an admin of {family}")
        taken = [name for name, admin in admins.items() if admin.hash == FORGED["hash"]]
        demand(not taken, Invariant.BOUNDARY, f"{EVE.name} has changed the admins {taken} of {family}")
    families = [name for name, family in amount.families.items() if family.heartbeat_ms == FORGED["heartbeat_ms"]]
    demand(not families, Invariant.BOUNDARY, f"{EVE.name} has changed the families {families}")
    owner = amount.service_owners.get(KEPT)
    demand(owner == CHIEF[0].family, Invariant.BOUNDARY, f"service {KEPT} belongs to {owner}")
    brokers = [name for name, broker in amount.brokers.items() if broker.host == FORGED["host"]]
    demand(not brokers, Invariant.BOUNDARY, f"{EVE.name} has changed the brokers {brokers}")


def plain_heads(edits: Collection[SignedEdit]) -> dict[str, list[SignedEdit]]:
    named = {parent for signed in edits for parent in signed.edit.parents}
    heads: dict[str, list[SignedEdit]] = {}
    for signed in edits:
        if signed.id not in named:
            heads.setdefault(signed.edit.key, []).append(signed)
    return heads


def check_agreement(ledger: Ledger, stewards: Sequence[Steward]) -> None:
    """Long enough after the last fault: all hold the same, and nothing that was acknowledged is missing."""
    digests = {steward.edits.digest for steward in stewards}
    demand(len(digests) == 1, Invariant.END, f"{len(digests)} different configs after everything healed")
    for steward in stewards:
        check_closure(steward.edits, steward.edits)
        check_reading(ledger, steward.edits, steward.read())
    edits = stewards[0].edits
    lost = [edit_id for edit_id in ledger.acknowledged if edit_id not in edits and edit_id not in ledger.taken]
    demand(not lost, Invariant.SAFETY, f"{len(lost)} acknowledged edits are lost, and no fault took them")
