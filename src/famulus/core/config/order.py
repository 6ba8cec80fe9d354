"""The order in which the edits of one key are processed, the same on every broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush

from famulus.core.config.edit import SignedEdit

#: Where an edit stands among those that do not have to wait for each other: the smallest first.
Place = tuple[int, ...]


def in_causal_order(edits: Sequence[SignedEdit], place: Callable[[SignedEdit], Place]) -> Iterator[SignedEdit]:
    """Each edit after its parents; otherwise by its place, and by its id where places are equal."""
    by_id = {signed.id: signed for signed in edits}
    children: dict[str, list[SignedEdit]] = {}
    for signed in edits:
        for parent in signed.edit.parents:
            children.setdefault(parent, []).append(signed)
    lacking = {signed.id: len(signed.edit.parents) for signed in edits}
    ready = [(place(signed), signed.id) for signed in edits if not signed.edit.parents]
    heapify(ready)
    while ready:
        signed = by_id[heappop(ready)[1]]
        yield signed
        for child in children.get(signed.id, ()):
            lacking[child.id] -= 1
            if not lacking[child.id]:
                heappush(ready, (place(child), child.id))
