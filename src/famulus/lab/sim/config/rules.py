"""How a steward merges and reads; the ways that are wrong are in `mutants`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from famulus.core.config import sync
from famulus.core.config.edit import SignedEdit
from famulus.core.config.edit_set import EditSet
from famulus.core.config.effective import Effective, effective
from famulus.core.config.sync import Edits, Ids, Message, Summary, Want


@dataclass(frozen=True, slots=True)
class Merged:
    """The set that a steward goes on with, and which of its edits were not there before."""

    edits: EditSet
    new: tuple[SignedEdit, ...]


@dataclass(frozen=True, slots=True)
class Rules:
    answer: Callable[[EditSet, Summary | Ids | Want], list[Message]]
    merge: Callable[[EditSet, Edits], Merged]
    news: Callable[[EditSet, Sequence[SignedEdit]], list[Message]]
    read: Callable[[EditSet], Effective]


def _union(edits: EditSet, came: Edits) -> Merged:
    return Merged(edits, edits.add(came.edits).new)


#: Edits are united, and a conflict is shown until it is resolved.
RIGHT = Rules(sync.answer, _union, sync.news, effective)
