"""Seven ways to merge and read that look right. The simulation has to tell them from the right one.

Four of them go by version numbers, as if a config were one document: whoever has a different version, or a higher one,
is believed, and its edits replace ours. The fifth merges correctly, but picks the latest edit when it reads. The sixth
believes that whoever could make an edit had the right to. The seventh gives a principal what one of its
heads gives.
"""

from __future__ import annotations

from itertools import product

from famulus.core.config import sync
from famulus.core.config.buckets import BUCKETS
from famulus.core.config.edit_set import EditSet
from famulus.core.config.effective import Effective, from_heads
from famulus.core.config.schema import Principal
from famulus.core.config.sync import Edits, Ids, Message, Summary, Want
from famulus.lab.sim.config.invariants import plain_heads
from famulus.lab.sim.config.pen import verify
from famulus.lab.sim.config.steward import Merged, Rules, Steward
from famulus.lab.sim.invariants import Invariant
from famulus.lab.sim.mutants import Mutants

OF_THE_CONFIG = Mutants()


def _by_version(*, any_other: bool, bigger_hash: bool) -> Rules:
    """The other is believed if its version is higher (or just different), or equal with a bigger hash (or never)."""

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
        return (theirs, new) if believed(edits, theirs.version, theirs.digest) else (edits, ())

    return Rules(answer, adopt, lambda edits, _: [sync.heartbeat(edits)])


for bigger_hash, any_other in product((False, True), repeat=2):
    name = "other-version" if any_other else "higher-version"
    adopted = "any other" if any_other else "the higher"
    among_equals = ("equal versions with different hashes stay as they are", "among equal ones the bigger hash")
    OF_THE_CONFIG.add(
        f"{name}-bigger-hash" if bigger_hash else name,
        f"{adopted} version is adopted, and {among_equals[bigger_hash]}",
        Steward,
        "rules",
        _by_version(any_other=any_other, bigger_hash=bigger_hash),
        # Whoever believes a version number loses what others wrote meanwhile, or stays apart from them.
        Invariant.SAFETY,
        Invariant.END,
    )


@OF_THE_CONFIG.breaks(Steward, "read", "last-writer-wins", Invariant.CONFLICTS)
def _last_writer_wins(self: Steward) -> Effective:
    """Whoever reads takes the latest of several heads, and no conflict is listed."""
    edits, keys = self.edits, self.edits.keys()
    latest = {key: [max(edits.heads(key), key=lambda signed: (signed.edit.hlc, signed.id))] for key in keys}
    return from_heads(edits.version, edits.digest, latest)


@OF_THE_CONFIG.breaks(Steward, "read", "rights-unchecked", Invariant.BOUNDARY)
def _anybody_may(self: Steward) -> Effective:
    """An edit counts whoever made it, as if a broker that was changed still checked rights."""
    in_order = sorted(self.edits, key=lambda signed: signed.id)
    return from_heads(self.edits.version, self.edits.digest, plain_heads(in_order))


@OF_THE_CONFIG.breaks(Principal, "at_least", "one-head-is-enough", Invariant.RIGHTS)
def _one_is_enough(self: Principal, other: Principal) -> Principal:
    """What edits of a principal that contradict each other allow is what one of them allows."""
    return self
