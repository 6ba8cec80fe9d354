"""What was acknowledged, and what each steward had on its disk, as an outside observer wrote it down."""

from __future__ import annotations

from dataclasses import dataclass, field

from famulus.core.config.edit_set import EditSet
from famulus.lab.sim.config.pen import CHIEF, KEPT


@dataclass(slots=True)
class Page:
    """What one steward has shown so far, and so must show from now on."""

    ids: set[str] = field(default_factory=set)
    heads: dict[str, set[str]] = field(default_factory=dict)
    #: Whether it knew by then whose the families are.
    knew_owners: bool = True


@dataclass(slots=True)
class Ledger:
    pages: dict[str, Page] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    #: What faults took from the last disk that it was on: it is gone, and nobody is to blame.
    taken: set[str] = field(default_factory=set)
    #: What a changed broker made without the right to.
    forged: set[str] = field(default_factory=set)
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
        # What somebody else has written down has to come back.
        self.taken |= lost.difference(*(page.ids for page in self.pages.values()))


def knows_owners(edits: EditSet) -> bool:
    """Whether it is there who the admins of the families are, and what is whose. Until then all seems anybody's."""
    if not edits.needs_proofs:
        return len(edits) > 0
    return all(edits.heads(key) for key in (*(person.key for person in CHIEF), f"service/{KEPT}"))
