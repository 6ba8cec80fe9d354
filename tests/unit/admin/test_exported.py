"""What is exported and imported again is the same, and no password is in it."""

from __future__ import annotations

from msgspec import UNSET

from famulus.admin import exported
from famulus.core.config.draft import FieldChange
from famulus.core.steward.answers import Head, Key, Shown

A, B = "a" * 64, "b" * 64


def one(value: object, *, op: str = "PUT") -> Key:
    return Key(op, value, (Head(A, op, value, chosen=True),))  # type: ignore[arg-type]


THERE = Shown(
    network="n" * 64,
    broker="b1",
    version=5,
    digest="d" * 64,
    keys={
        "service/zeta": one({"timeout_ms": 1}),
        "service/alpha": one({}),
        "service/gone": one(None, op="DEL"),
        "admin/main/ann": one({"hash": "hidden"}),
        "service/torn": Key("PUT", {"x": 1}, (Head(A, "PUT", {"x": 1}, chosen=True), Head(B, "PUT", {"x": 2}))),
    },
)


def test_a_file_holds_what_is_set_and_names_admins() -> None:
    found = exported.export(THERE)
    assert found.keys == {"service/zeta": {"timeout_ms": 1}, "service/alpha": {}, "service/torn": {"x": 1}}
    assert (found.admins, found.conflicts) == (("admin/main/ann",), ("service/torn",))
    text = exported.write(found).decode()
    assert "hash" not in text
    assert text.index("alpha") < text.index('service/torn": {') < text.index("zeta")
    assert exported.read(exported.write(found)) == found


def test_a_plan_of_what_is_there_is_empty() -> None:
    plan = exported.plan(exported.export(THERE), THERE)
    assert (plan.changes, plan.same, plan.kept, plan.other_network) == ((), 2, 0, False)
    assert (plan.skipped, plan.disputed) == (("admin/main/ann",), ("service/torn",))


def test_a_plan_names_every_change_and_deletes_nothing() -> None:
    keys = {"service/zeta": {"timeout_ms": 2}, "service/gone": {}, "service/torn": {"x": 2}, "admin/x/y": {"hash": "h"}}
    plan = exported.plan(exported.Exported(format=1, keys=keys, network="other"), THERE)
    by_key = {planned.draft.key: planned for planned in plan.changes}
    assert list(by_key) == ["service/gone", "service/torn", "service/zeta"]
    assert by_key["service/zeta"].difference == (FieldChange("timeout_ms", 1, 2),)
    assert by_key["service/gone"].difference == (FieldChange("", UNSET, {}),)
    assert by_key["service/gone"].draft.parents == (A,)
    assert by_key["service/torn"].draft.parents == (A, B)
    assert [planned.ends_conflict for planned in plan.changes] == [False, True, False]
    assert all(planned.draft.op == "PUT" for planned in plan.changes)
    assert (plan.skipped, plan.kept, plan.other_network) == (("admin/x/y",), 1, True)
