"""Who used what, and who was refused what."""

from __future__ import annotations

from typing import Any

import pytest
from tests.pipeline.tables.conftest import MS, NOON, Makes, Rows, at

DAY = 86_400
HOUR = {"date": NOON.date(), "hour": 12}


def test_what_was_refused_is_summed_by_the_hour(rows: Rows, make: Makes) -> None:
    refused = {"why": "not_allowed", "address": "192.0.2.1"}
    access = rows.of(
        "access",
        {**refused, "times": 2, "at": at(7)},
        {**refused, "times": 3, "at": at(5)},
        {**refused, "times": 1, "at": at(3600)},
        {**refused, "times": 1, "broker": "b2"},
        {"why": "no_key", "wanted": "connect", "principal": None, "service": None, "address": "*", "times": 900},
        {"times": 50, "busy_ns": 3},
    )
    made = {(row["hour"], row["broker"], row["why"]): row for row in make("refusals", access=access)}
    assert made.keys() == {
        (12, "b1", "not_allowed"), (13, "b1", "not_allowed"), (12, "b2", "not_allowed"), (12, "b1", "no_key")
    }  # fmt: skip
    assert made[12, "b1", "not_allowed"] == {
        **HOUR, "broker": "b1", "family": "main", "port": "frontend", "wanted": "call", "why": "not_allowed",
        "principal": "shop", "key": None, "address": "192.0.2.1", "service": "echo", "times": 5, "first": at(5),
        "last": at(7),
    }  # fmt: skip
    unknown = made[12, "b1", "no_key"]
    assert (unknown["principal"], unknown["service"], unknown["address"], unknown["times"]) == (None, None, "*", 900)


def test_what_a_principal_used_is_summed_over_brokers(rows: Rows, make: Makes) -> None:
    used = {"request_bytes": 10, "response_bytes": 20}
    access = rows.of(
        "access",
        {**used, "times": 3, "busy_ns": 5 * MS},
        # Another broker, whose worker did one of these tasks.
        {"broker": "b2", "times": 0, "request_bytes": 0, "response_bytes": 0, "busy_ns": 2 * MS},
        {"times": 4, "why": "overload"},
        {**used, "times": 1, "busy_ns": 0, "service": "sum"},
        {"times": 9, "why": "unknown_key", "service": None},
        {"times": 9, "why": "no_key", "service": None, "principal": None},
    )
    found = make("principal_hours", access=access)
    counts = ("tasks", "request_bytes", "response_bytes", "busy_ns", "refused")
    assert {(row["principal"], row["service"]): tuple(row[name] for name in counts) for row in found} == {
        ("shop", "echo"): (3, 10, 20, 7 * MS, 4),
        ("shop", "sum"): (1, 10, 20, 0, 0),
        ("shop", None): (0, 0, 0, 0, 9),
    }


@pytest.fixture
def findings(rows: Rows, make: Makes) -> Any:
    """What is found of these refusals and edits, if the data end at noon."""

    def found(refusals: list[dict[str, Any]], config: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        made = make(
            "findings",
            broker_minutes=rows.of("broker_minutes", {"minute": at()}),
            refusals=rows.of("refusals", *refusals),
            config_events=rows.of("config_events", *config),
        )
        return {f"{row['kind']} {row['subject']}": row for row in made}

    return found


def test_who_is_refused_again_and_again_is_found(findings: Any) -> None:
    shop = {"broker": "b1", "principal": "shop", "port": "frontend", "wanted": "call", "why": "not_allowed"}
    stranger = {"broker": "b2", "port": "backend", "wanted": "connect", "why": "no_key", "last": at()}
    made = findings(
        [
            {**shop, "service": "img", "times": 60, "last": at(-60)},
            {**shop, "service": "sum", "times": 40, "last": at(-90)},
            {**shop, "service": "sum", "times": 99, "last": at(-DAY)},
            {**shop, "principal": "office", "times": 99, "last": at()},
            {**shop, "principal": "office", "why": "overload", "times": 100, "last": at()},
            {**stranger, "address": "192.0.2.1", "times": 100},
            {**stranger, "address": "*", "times": 10_000},
            {**stranger, "times": 10_000},
            {**stranger, "why": "unknown_key", "key": "abcd", "address": "192.0.2.2", "times": 100},
        ],
        [],
    )
    assert made.keys() == {
        "refused_often shop not_allowed", "refused_often office overload", "refused_often 192.0.2.1 no_key",
        "refused_often abcd unknown_key",
    }  # fmt: skip
    row = made["refused_often shop not_allowed"]
    assert (row["severity"], row["last_seen"], row["key"]) == ("warning", at(-60), None)
    assert row["title"] == "shop is refused again and again: not_allowed"
    assert row["evidence"] == (
        "100 times in the last day; most of all at the frontend port of b1, which it asked to call img"
    )
    assert "famulus pass rights shop --call img" in row["advice"]
    assert made["refused_often office overload"]["severity"] == "info"
    assert "raise its limits" in made["refused_often office overload"]["advice"]
    stranger_row = made["refused_often 192.0.2.1 no_key"]
    assert stranger_row["evidence"].endswith("at the backend port of b2, which it asked to connect")
    assert "give it a pass" in stranger_row["advice"]


def test_keys_that_expire_soon_are_found_by_their_last_edit(findings: Any) -> None:
    def edit(name: str, expires: float | None, edited: float = 0, **more: Any) -> dict[str, Any]:
        instant = None if expires is None else at(expires)
        told = {"event": "accepted", "edit": f"{name} {edited}", "key": f"principal/{name}", "edited": at(edited)}
        return {**told, "expires": instant, **more}

    made = findings(
        [],
        [
            edit("soon", 14 * DAY, event="expires", at=at(30)),
            edit("soon", 14 * DAY, event="expires", at=at(40), broker="b2"),
            edit("later", 14 * DAY + 1),
            edit("just over", -5, event="applied"),
            edit("long over", -DAY),
            edit("never", None),
            edit("longer by now", 5),
            edit("longer by now", 40 * DAY, 10),
            edit("removed", 5),
            edit("removed", None, 10),
            edit("shorter by now", 40 * DAY),
            edit("shorter by now", 5, 10),
            edit("a service", 5, key="service/soon"),
        ],
    )
    assert {name: row["severity"] for name, row in made.items()} == {
        "keys_expire soon": "warning",
        "keys_expire just over": "critical",
        "keys_expire shorter by now": "warning",
    }
    row = made["keys_expire soon"]
    assert (row["key"], row["value"], row["last_seen"]) == ("principal/soon", None, at(40))
    assert row["title"] == "The keys of soon expire on 2026-11-29"
    assert row["evidence"] == "at 2026-11-29 12:00:00 UTC; from then on no broker lets it in"
