"""A live network with a planted fault gets better by applying a finding, measured before and after."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.longer import longer

from famulus.lab.loop.cast import FAULTS, THUMB
from famulus.lab.loop.closing import close_the_loop
from famulus.tables.finding import FILE

#: What the pipeline finds about the slow worker; tests/pipeline/tables/test_advice.py sees that it does.
SLOW_WORKER = {
    "id": "5f0c2a9b41de",
    "rank": 1,
    "severity": "warning",
    "kind": "bad_worker",
    "subject": "thumb-4 thumb",
    "title": "Worker thumb-4 does badly at thumb",
    "evidence": "it is slow",
    "advice": "Drain it.",
    "key": "worker/thumb-4",
    "value": '{"family":"main","state":"drained"}',
    "last_seen": datetime(2026, 3, 2, tzinfo=UTC),
}


def by_hand(_: Path, tables: Path) -> None:
    """Instead of the pipeline, which takes too long for every change."""
    path = tables / FILE
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([SLOW_WORKER]), path)


def test_a_slow_worker_is_drained_by_its_finding_and_tasks_are_quick_again(tmp_path: Path) -> None:
    told: list[str] = []
    (outcome,) = close_the_loop(tmp_path, told.append, faults=[THUMB], seconds=2.0, diagnose=by_hand)
    assert outcome.is_better, (outcome, told)
    assert (outcome.before.ok, outcome.after.ok) == (1.0, 1.0), "nothing is lost by draining a worker"
    assert "an admin has drained this worker" in (tmp_path / "thumb-4.log").read_text()


@longer
def test_three_services_with_faults_get_better_by_what_the_pipeline_finds(tmp_path: Path) -> None:
    told: list[str] = []
    outcomes = close_the_loop(tmp_path, told.append)
    assert [each.fault for each in outcomes] == list(FAULTS)
    assert all(each.is_better for each in outcomes), (outcomes, told)
