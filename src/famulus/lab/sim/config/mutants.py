"""Six ways to merge and read that look right. The simulation has to tell them from the right one.

Four of them are rules by version numbers, as if a config were one document: whoever has the other version, or the
higher one, is believed, and its edits take the place of ours. The fifth merges rightly, and picks the latest edit when
it reads. The sixth believes that who could make an edit had the right to.
"""

from __future__ import annotations

from dataclasses import replace

from famulus.core.config import sync
from famulus.core.config.buckets import BUCKETS
from famulus.core.config.edit import SignedEdit
from famulus.core.config.edit_set import EditSet
from famulus.core.config.effective import Effective, effective, from_heads
from famulus.core.config.sync import Edits, Ids, Message, Summary, Want
from famulus.lab.sim.config.rules import RIGHT, Merged, Rules
from famulus.lab.sim.config.signing import verify
from famulus.lab.sim.config.steward import Steward
from famulus.lab.sim.invariants import Invariant
from famulus.lab.sim.mutants import Mutants


def _by_version(*, any_other: bool, bigger_hash: bool) -> Rules:
    """The other is believed if its version is higher (or any other), or equal with a bigger hash (or never)."""

    def believed(ours: EditSet, version: int, digest: str) -> bool:
        if version == ours.version:
            return bigger_hash and digest > ours.digest
        return any_other or version > ours.version

    def answer(edits: EditSet, message: Summary | Ids | Want) -> list[Message]:
        if isinstance(message, Summary):
            # Whoever has nothing is sent everything.
            nothing = Ids({number: [] for number in range(BUCKETS)})
            return [nothing] if believed(edits, message.version, message.digest) else []
        return sync.answer(edits, message)

    def adopt(edits: EditSet, came: Edits) -> Merged:
        theirs = EditSet(edits.network, verify)
        new = theirs.add(came.edits).new
        return Merged(theirs, new) if believed(edits, theirs.version, theirs.digest) else Merged(edits, ())

    return Rules(answer, adopt, lambda edits, _: [sync.heartbeat(edits)], effective)


def _last_writer_wins(edits: EditSet) -> Effective:
    """As if there were no conflicts."""
    keys = edits.keys()
    latest = {key: [max(edits.heads(key), key=lambda signed: (signed.edit.hlc, signed.id))] for key in keys}
    return from_heads(edits.version, edits.digest, latest)


def _anybody_may(edits: EditSet) -> Effective:
    """As if rights were checked only where edits are made."""
    named = {parent for signed in edits for parent in signed.edit.parents}
    heads: dict[str, list[SignedEdit]] = {}
    for signed in sorted(edits, key=lambda each: each.id):
        if signed.id not in named:
            heads.setdefault(signed.edit.key, []).append(signed)
    return from_heads(edits.version, edits.digest, heads)


OF_THE_CONFIG = Mutants()
for name, what, rules, caught_by in (
    (
        "higher-version",
        "the higher version is adopted, and equal versions with different hashes stay as they are",
        _by_version(any_other=False, bigger_hash=False),
        # Whoever believes a version number loses what others wrote meanwhile, or stays apart from them.
        (Invariant.SAFETY, Invariant.END),
    ),
    (
        "other-version",
        "any other version is adopted, and equal versions with different hashes stay as they are",
        _by_version(any_other=True, bigger_hash=False),
        (Invariant.SAFETY, Invariant.END),
    ),
    (
        "higher-version-bigger-hash",
        "the higher version is adopted, and among equal ones the bigger hash",
        _by_version(any_other=False, bigger_hash=True),
        (Invariant.SAFETY, Invariant.END),
    ),
    (
        "other-version-bigger-hash",
        "any other version is adopted, and among equal ones the bigger hash",
        _by_version(any_other=True, bigger_hash=True),
        (Invariant.SAFETY, Invariant.END),
    ),
    (
        "last-writer-wins",
        "whoever reads takes the latest of several heads, and no conflict is listed",
        replace(RIGHT, read=_last_writer_wins),
        (Invariant.CONFLICTS,),
    ),
    (
        "rights-unchecked",
        "an edit counts whoever made it, as if a broker that was changed still checked rights",
        replace(RIGHT, read=_anybody_may),
        (Invariant.BOUNDARY,),
    ),
):
    OF_THE_CONFIG.add(name, what, Steward, "rules", rules, *caught_by)
