"""A network of brokers that write edits, and a set that knows them all.

    first = network.put("family/a", {})
    network.put("family/a", {"heartbeat_ms": 500}, parents=[first])
    assert len(network.edits.heads("family/a")) == 1

`root` and `b2` may accept edits. What `network.put` and `network.delete` write is added to `network.edits`, unless a
test says `add=False` to keep it for later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pytest

from famulus.core.config.draft import Draft
from famulus.core.config.edit import SignedEdit
from famulus.core.config.edit_set import EditSet
from famulus.lab.sim.config.pen import Pen, root_pen, verify


class Network:
    def __init__(self) -> None:
        root = root_pen("root")
        self.id = root.network
        self.pens = {"root": root, "b2": Pen("b2", root.network)}
        self.edits = self.empty()
        self._made = 0
        self.first = root.write_root()
        self.grants = {"root": self.first.id}
        self.edits.add([self.first])
        self.introduce("b2")

    def empty(self) -> EditSet:
        return EditSet(self.id, verify)

    def introduce(self, name: str, by: str = "root") -> SignedEdit:
        """Make a broker known, so that it may accept edits."""
        pen = self.pens.setdefault(name, Pen(name, self.id))
        signed = self.write(pen.introduction(), by=by)
        self.grants[name] = signed.id
        self.edits.add([signed])
        return signed

    def write(self, draft: Draft, *, by: str = "root", hlc: int | None = None, grant: str | None = None) -> SignedEdit:
        self._made += 1
        its_grant = self.grants[by] if grant is None else grant
        return self.pens[by].write(draft, its_grant, self._made if hlc is None else hlc, self._made)

    def put(
        self, key: str, value: Any, parents: Sequence[SignedEdit] = (), *, add: bool = True, **how: Any
    ) -> SignedEdit:
        return self._edit("PUT", key, value, parents, add, how)

    def delete(self, key: str, parents: Sequence[SignedEdit] = (), *, add: bool = True, **how: Any) -> SignedEdit:
        return self._edit("DEL", key, None, parents, add, how)

    def _edit(
        self,
        op: Literal["PUT", "DEL"],
        key: str,
        value: Any,
        parents: Sequence[SignedEdit],
        add: bool,
        how: dict[str, Any],
    ) -> SignedEdit:
        signed = self.write(Draft(key, op, value, tuple(parent.id for parent in parents)), **how)
        if add:
            added = self.edits.add([signed])
            assert added.new == (signed,), added
        return signed


@pytest.fixture
def network() -> Network:
    return Network()
