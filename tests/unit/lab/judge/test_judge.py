"""The findings that each planted truth must lead to, and how a journal is judged by them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from famulus.lab.judge.expected import FINDINGS, Named, findings_of, may_find
from famulus.lab.judge.judging import count_failed
from famulus.lab.judge.plan import plan_for
from famulus.lab.judge.score import Score, compare
from famulus.lab.synth.plan import TRUTHS

SLOW = Named("bad_worker", "w1 mail")
GAP = Named("journal_gaps", "alfa")


def test_for_each_truth_it_is_known_what_must_be_found() -> None:
    assert set(FINDINGS) == set(TRUTHS)


def test_what_is_planted_leads_to_findings_that_know_their_truth() -> None:
    planted = {"slow_worker": {"worker": "w1", "service": "mail"}, "journal_gap": {"broker": "alfa"}, "late_answer": {}}
    assert findings_of(planted) == {SLOW: "slow_worker", GAP: "journal_gap"}


def test_a_burst_that_is_a_small_part_of_the_hour_need_not_be_an_alarm() -> None:
    """14.4 times 0.2 % of 500 tasks are 14.4."""
    facts = {"service": "invoice", "share": 0.998}
    burning = Named("budget_burning", "invoice")
    for hour, must in (((9, 50), False), ((10, 50), True), ((14, 500), False), ((15, 500), True)):
        planted = {"error_burst": facts | {"hour": hour}}
        assert (burning in findings_of(planted)) is must
        assert burning in may_find(planted)


def test_what_failed_is_counted_in_the_hour_before_an_instant(tmp_path: Path) -> None:
    end = datetime(2026, 3, 2, 5, tzinfo=UTC)
    rows = [
        {"service": service, "outcome": outcome, "ended": end - timedelta(minutes=minutes)}
        for service, outcome, minutes in (
            ("invoice", "ERROR", 1), ("invoice", "UNKNOWN", 60), ("invoice", "ERROR", 61), ("invoice", "ERROR", 0),
            ("invoice", "OK", 1), ("mail", "ERROR", 1),
        )
    ]  # fmt: skip
    (tmp_path / "tasks").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "tasks" / "1.parquet")
    assert count_failed(tmp_path, "invoice", end.isoformat()) == (2, 3)


def test_the_same_seed_plants_the_same_and_another_one_something_else() -> None:
    assert plan_for(3) == plan_for(3)
    assert len({plan_for(seed) for seed in range(1, 10)}) == 9


def test_nothing_is_planted_in_one_of_ten_journals_and_everything_in_some_of_the_others() -> None:
    plans = [plan_for(seed) for seed in range(1, 21)]
    assert [plan.seed for plan in plans if not plan.truths] == [10, 20]
    assert frozenset.union(*[plan.truths for plan in plans]) == set(TRUTHS)


def test_what_is_missed_costs_recall_and_what_is_false_costs_precision() -> None:
    score = Score([compare(1, {SLOW: "slow_worker", GAP: "journal_gap"}, {SLOW})])
    assert score.journals[0].missed == {GAP: "journal_gap"}
    assert (score.recall, score.precision, score.is_good) == (0.5, 1.0, False)
    score.journals.append(compare(2, {}, {GAP}))
    assert score.journals[1].false == (GAP,)
    assert (score.recall, score.precision, score.is_good) == (0.5, 0.5, False)


@pytest.mark.parametrize(("true", "is_good"), [(48, False), (49, True)])
def test_one_false_finding_in_fifty_is_few_enough(true: int, is_good: bool) -> None:
    many = {Named("bad_worker", str(number)): "slow_worker" for number in range(true)}
    assert Score([compare(1, many, {*many, GAP})]).is_good is is_good


def test_nothing_planted_and_nothing_found_is_good() -> None:
    assert Score([compare(10, {}, set())]).is_good
