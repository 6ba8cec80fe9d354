"""Forecasts: what is asked, what the model says, and how it is compared with what was measured."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.pipeline.conftest import START, Put, histogram

from famulus.cli.pipeline import forecasts
from famulus.errors import SettingsError
from famulus.pipeline.report.measured import measured
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.whatif.change import change
from famulus.pipeline.whatif.erlang import ErlangQueue, slots_needed
from famulus.pipeline.whatif.forecast import BusiestHour, Fit, Measured, Waits, busiest, forecast, hour_of

HOUR_NS = 3_600_000_000_000


# -- the model -----------------------------------------------------------------------------------------------------


def test_one_slot_is_the_queue_of_the_textbook() -> None:
    """M/M/1: the share that waits is the load, and the mean wait is load * service / (1 - load)."""
    queue = ErlangQueue(0.8, 2.0, 1)
    assert queue.wait_share == pytest.approx(0.8)
    assert queue.mean_wait_s == pytest.approx(8.0)
    assert queue.wait_s(0.95) == pytest.approx(10 * math.log(0.8 / 0.05))
    assert queue.longer_than(queue.wait_s(0.95)) == pytest.approx(0.05)
    assert queue.wait_s(0.1) == 0.0


def test_five_slots_by_the_book() -> None:
    queue = ErlangQueue(4.0, 2.5, 5)
    assert queue.wait_share == pytest.approx(0.554113, rel=1e-5)
    assert queue.mean_wait_s == pytest.approx(0.554113 * 2.5)
    assert queue.busy_share == pytest.approx(0.8)
    assert slots_needed(4.0, 2.5, wait_s=0.1, share=0.05) == 9


def test_more_than_the_slots_can_do_has_no_end() -> None:
    for erlangs in (3.0, 9.0):
        queue = ErlangQueue(erlangs, 1.0, 3)
        assert not queue.keeps_up
        assert (queue.wait_share, queue.longer_than(5.0)) == (1.0, 1.0)
        assert (queue.mean_wait_s, queue.wait_s(0.5)) == (math.inf, math.inf)


def test_nothing_to_do_needs_nothing() -> None:
    assert slots_needed(0.0, 1.0, wait_s=0.1, share=0.05) == 0
    assert ErlangQueue(0.0, 1.0, 3).wait_share == 0.0


def test_a_thousand_slots_are_no_matter() -> None:
    needed = slots_needed(1000.0, 1.0, wait_s=0.1, share=0.05)
    assert ErlangQueue(1000.0, 1.0, needed).longer_than(0.1) <= 0.05
    assert ErlangQueue(1000.0, 1.0, needed - 1).longer_than(0.1) > 0.05


# -- what is asked -------------------------------------------------------------------------------------------------


def test_factors_are_for_all_and_numbers_for_one() -> None:
    wanted = change(["2", "mail=x3"], ["x0.5", "mail=12"])
    assert wanted.services == {"mail"}
    assert (wanted.erlangs("echo", 1.5), wanted.erlangs("mail", 1.5)) == (3.0, 4.5)
    assert (wanted.slots_of("echo", 3), wanted.slots_of("mail", 3)) == (1, 12)
    assert wanted.slots_of("echo", 1) == 1
    # As doubles they are a little less than 29.
    assert change([], ["x0.29"]).slots_of("echo", 100) == 29
    assert change(["x2"], []).slots_of("echo", 10) == 10


@pytest.mark.parametrize(
    ("load", "slots", "said"),
    [
        ([], [], "say what would be different: --load x2"),
        (["two"], [], "--load: 'two' is no amount such as x2"),
        (["mail="], [], "--load: '' is no amount"),
        (["0"], [], "--load: '0' is no amount"),
        (["-1"], [], "--load: '-1' is no amount"),
        (["x1001"], [], "--load: x1001 is more than 1000 times as much"),
        ([], ["12"], "--slots: x12 is 12 times as many for all services, SERVICE=12 that many for one; 12 alone"),
        ([], ["mail=1.5"], "--slots: 1.5 is no number of slots from 1 to 100,000"),
        ([], ["mail=999999"], "--slots: 999999 is no number of slots"),
        ([], ["x2", "x3"], "--slots: all services have two amounts"),
        ([], ["mail=2", "mail=3"], "--slots: mail has two amounts"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(load: list[str], slots: list[str], said: str) -> None:
    with pytest.raises(SettingsError) as raised:
        change(load, slots)
    assert str(raised.value).startswith(said)


# -- forecasts -----------------------------------------------------------------------------------------------------


def hour(**more: Any) -> BusiestHour:
    return BusiestHour(**{"service": "echo", "family": "main", "hour_of_day": 9, "erlangs": 4.0, "service_s": 2.5,
                          "slots": 5.9, **more})  # fmt: skip


def seen(p95_s: float, tasks: int = 1000) -> Measured:
    return Measured(tasks, Waits(0.5, p95_s / 3, p95_s, 2 * p95_s))


def test_twice_the_load_is_compared_with_now() -> None:
    told = forecast(hour(), None, change(["x2"], ["echo=10"]))
    assert told.now is not None
    assert told.asked is not None
    assert (told.now.slots, told.now.keeps_up, told.now.slots_needed) == (5, True, 9)
    assert (told.asked.slots, told.asked.busy_share) == (10, 0.8)
    assert told.asked.slots_needed == slots_needed(8.0, 2.5, wait_s=0.1, share=0.05)
    # The same load of each slot in a longer row of slots: less wait.
    assert told.asked.waits.p95_s < told.now.waits.p95_s


def test_who_does_not_keep_up_hears_what_it_takes() -> None:
    told = forecast(hour(), seen(1.0), change([], ["x0.5"]))
    assert told.asked is not None
    assert (told.asked.slots, told.asked.keeps_up, told.asked.waits.p95_s) == (2, False, math.inf)
    assert list(forecasts.sentences(told))[1] == (
        "would not keep up: tasks would ask for more than the slots can do; the target takes 9 slots, 7 slots more"
    )
    assert list(forecasts.rows(told, with_family=False))[2] == (
        "", "asked", "2", "200 %", "100 %", "grows", "grows", "grows",
    )  # fmt: skip


def test_the_target_is_ones_own() -> None:
    strict, easy = (forecast(hour(), None, change(["x1"], []), wait_s=wait_s).asked for wait_s in (0.001, 60.0))
    assert strict is not None
    assert easy is not None
    assert strict.slots_needed > easy.slots_needed == 5
    told = forecast(hour(), None, change(["x1"], []), wait_s=60.0)
    assert list(forecasts.sentences(told))[1] == "would keep up and meet the target"


@pytest.mark.parametrize(
    ("measured_s", "tasks", "fit"),
    # The model says 6.0 s.
    [(6.0, 100, Fit.GOOD), (11.0, 100, Fit.GOOD), (13.0, 100, Fit.HOPEFUL), (2.9, 100, Fit.CAREFUL),
     (6.0, 99, Fit.UNKNOWN)],
)  # fmt: skip
def test_the_reader_hears_how_well_the_model_fits(measured_s: float, tasks: int, fit: Fit) -> None:
    told = forecast(hour(), seen(measured_s, tasks), change(["x2"], []))
    assert told.fit is fit
    assert forecasts.FITS[fit] in next(forecasts.sentences(told))


def test_two_waits_that_nobody_feels_fit() -> None:
    idle = hour(erlangs=0.01, service_s=0.05)
    assert forecast(idle, seen(0.0001), change(["x2"], [])).fit is Fit.GOOD


@pytest.mark.parametrize("slots", [None, 0.4])
def test_without_slots_there_is_no_model(slots: float | None) -> None:
    told = forecast(hour(slots=slots), seen(1.0), change(["x2"], []))
    assert (told.now, told.asked, told.fit) == (None, None, Fit.UNKNOWN)
    assert "was not noted" in next(forecasts.sentences(told))
    assert len(list(forecasts.rows(told, with_family=True))) == 1


def capacity_row(**more: Any) -> dict[str, Any]:
    return {"service": "echo", "family": "main", "hour_of_day": 9, "erlangs_peak": 1.0, "service_s": 1.0, "slots": 4.0,
            "slots_needed": 3, "slots_missing": 0, **more}  # fmt: skip


def test_the_most_demanding_hour_of_each_service_the_worst_first() -> None:
    rows = [
        capacity_row(hour_of_day=8),
        capacity_row(hour_of_day=9, erlangs_peak=2.0),
        capacity_row(service="short", hour_of_day=7, slots_missing=2, slots_needed=9),
        capacity_row(service="short", hour_of_day=6, erlangs_peak=9.0, slots_missing=None, slots=None),
    ]
    found = [hour_of(row) for row in busiest(rows)]
    assert [(each.service, each.hour_of_day) for each in found] == [("short", 7), ("echo", 9)]


# -- what was measured ---------------------------------------------------------------------------------------------


def test_waits_are_those_of_the_day_with_the_most_load(put: Put) -> None:
    """Also counting what was refused; other hours, services and families are not looked at."""
    nine = START.replace(hour=9)
    row = {"service": "echo", "family": "main", "at": nine, "runs": 10, "busy_ns": HOUR_NS}
    tables = put(
        "service_hours",
        {**row, "queue_hist": histogram(1.0)},
        {**row, "at": nine + timedelta(days=1), "overloaded": 5, "queue_hist": histogram(*[0.1] * 60, *[20.0] * 40)},
        {**row, "at": nine + timedelta(days=2), "queue_hist": histogram(5.0)},
        {**row, "at": nine + timedelta(days=1, hours=1), "busy_ns": 9 * HOUR_NS, "queue_hist": histogram(7.0)},
        {**row, "at": nine + timedelta(days=1), "service": "mail", "queue_hist": histogram(8.0)},
        {**row, "at": nine + timedelta(days=1), "family": "other", "queue_hist": histogram(9.0)},
    )
    found = measured(Tables(tables), [hour()])
    assert list(found) == [("echo", "main")]
    echo = found["echo", "main"]
    assert (echo.tasks, echo.waits.share) == (100, 0.4)
    assert echo.waits.mean_s == pytest.approx(0.00806, rel=0.04)
    assert echo.waits.p95_s == pytest.approx(0.02, rel=0.04)
    assert measured(Tables(tables), [hour(service="gone")]) == {}
