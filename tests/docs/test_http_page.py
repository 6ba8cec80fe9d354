"""The page about the HTTP port names every address, and everything that an answer to an admin has in it."""

from __future__ import annotations

import re

import pytest
from starlette.routing import Route
from tests.docs.test_pages import DOCS, section

from famulus.journal import apart
from famulus.web import actions, admin, admission, office, sessions, tasks
from famulus.web.admin import Admin
from famulus.web.findings import Findings
from famulus.web.office import Office
from famulus.web.status import ended
from famulus.web.status.board import Board
from famulus.web.status.views import EndedTask
from famulus.wire import status

PAGE = "http.md"


def routes() -> list[Route]:
    return Admin(Office(Board(), ""), Findings("", "")).routes()


@pytest.mark.parametrize("route", routes(), ids=lambda route: route.path)
def test_every_address_for_admins_is_there(route: Route) -> None:
    told = section(PAGE, "Addresses for admins")
    name = route.path.removeprefix("/api/v1/admin/")
    method = "POST" if "POST" in (route.methods or ()) else "GET"
    assert re.search(rf"^\| {method} .*`{name}`", told, re.MULTILINE)


KINDS = [*admin.ACTIONS.values(), actions.ApplyFinding, actions.LoginBody, actions.ActionPlan, actions.ActionResult]


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_there(kind: type) -> None:
    told = section(PAGE, "Addresses for admins")
    for field in kind.__struct_fields__:  # type: ignore[attr-defined]
        assert f"`{field}`" in told or f"`{field}:" in told, field


@pytest.mark.parametrize("field", EndedTask.__struct_fields__)
def test_every_field_of_a_task_is_there(field: str) -> None:
    assert f"`{field}`" in section(PAGE, "Tasks")


def test_the_bounds_are_those_of_the_code() -> None:
    told = " ".join((DOCS / PAGE).read_text("utf-8").split())
    minute_ns = 60 * 10**9
    for words in (
        f"{sessions.IDLE_NS // minute_ns} minutes after",
        f"{sessions.LIFETIME_NS // (60 * minute_ns)} hours after",
        f"at most {sessions.SESSIONS_MAX} sessions",
        f"At most {office.LOGINS_AT_ONCE} logins are looked at at a time, {office.LOGINS_IN_A_ROW} in a row",
        f"at most {office.ACTIONS_AT_ONCE} other requests",
        f"bodies of at most {admin.BODY_BYTES_MAX // 1024} KiB",
        f"last {ended.OK_MAX:,} that went well and {ended.FAILED_MAX:,} that did not",
        f"the first {status.OK_TASKS_MAX} and {status.FAILED_TASKS_MAX} in each second",
        f"{tasks.LIMIT} unless given, {tasks.LIMIT_MAX} at most",
        f"at most {apart.MEMORY_BYTES_MAX >> 30} GiB and {apart.SECONDS_MAX:.0f} seconds",
        "ssh -L 7104:127.0.0.1:7104",
    ):
        assert words in told, words
    assert "ssh -L 7104:127.0.0.1:7104" in admission.NOT_PRIVATE
