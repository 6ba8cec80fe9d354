"""Who runs which files of tests, and when, where several processes run them at once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import TYPE_CHECKING

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

if TYPE_CHECKING:
    import pytest

#: Their files wait for processes most of the time,
WAITING = ("browser", "deploy", "docs", "processes")
#: those of these keep a core busy, and the rest is short.
COMPUTING = ("property", "simulation", "test_types.py")
#: Nearly all of its files share one Spark session, which takes seconds to start and a minute to become quick:
TOGETHER = "tests/pipeline/"
#: not these, which have none, or one of their own. Whoever runs the others is busy for long enough.
APART = tuple(
    f"{TOGETHER}{name}.py"
    for name in ("jobs/test_java", "jobs/test_plan", "jobs/test_schedule", "test_report", "test_synth_cells")
)
#: Those that take longest of their kind, the longest first: whoever began with them at the end would be waited for.
LONGEST = tuple(
    f"tests/{name}.py"
    for name in (
        "docs/test_commands",
        "docs/test_tutorial",
        "processes/test_chaos",
        "processes/test_network",
        "processes/test_admin_cli",
        "processes/test_partitions",
        "browser/test_tasks",
        "browser/test_dashboard",
        "processes/test_worker",
        "browser/test_login",
        "browser/test_findings",
        "processes/test_impossible",
        "processes/test_streams",
        "deploy/test_start",
        "processes/test_recovery",
        "processes/test_client_failover",
        "processes/test_herald",
        "processes/test_journal",
        "processes/test_rules_of_a_network",
        "processes/test_strangers",
        "processes/test_rolling_upgrade",
        "processes/test_lost_logs_and_moves",
        "unit/test_plain",
        "unit/cli/test_missing_packages",
        "unit/client/test_failover",
        "pipeline/jobs/test_java",
        "unit/web/test_admin",
        "unit/tables/test_apart",
        "unit/core/config/test_judgement",
        "unit/journal/test_records",
        "unit/net/test_connections",
        "unit/admin/test_difference",
        "unit/cli/test_admin_session",
    )
)


class Turns(LoadFileScheduling):  # type: ignore[misc]
    """Files stay together, as what they set up is costly; those with the one Spark session are one."""

    def _split_scope(self, nodeid: str) -> str:
        return TOGETHER if shares_spark(nodeid) else str(super()._split_scope(nodeid))


def shares_spark(nodeid: str) -> bool:
    return nodeid.startswith(TOGETHER) and nodeid.partition("::")[0] not in APART


def in_turn(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The order in which they are begun: such that there is always somebody who computes while the others wait."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    names = sorted(files, key=lambda name: LONGEST.index(name) if name in LONGEST else len(LONGEST))
    waiting, computing = ([name for name in names if PurePath(name).parts[1] in kind] for kind in (WAITING, COMPUTING))
    # The pipeline computes as well, from the beginning; the short ones make all end at once.
    places = dict.fromkeys(names, 2.0) | _spread(waiting, 0.0) | _spread(computing, 0.2)
    places |= {name: -1.0 for name in files if shares_spark(name)}
    return [item for name in sorted(names, key=places.__getitem__) for item in files[name]]


def _spread(names: list[str], first: float) -> dict[str, float]:
    """Evenly, from there to 1."""
    return {name: first + (1 - first) * number / len(names) for number, name in enumerate(names)}
