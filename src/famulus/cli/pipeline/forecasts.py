"""Forecasts as people read them. Knows no files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from famulus.pipeline.report.words import duration_s, plural, share
from famulus.pipeline.whatif.forecast import WAIT_SHARE, Case, Fit, Forecast, Waits

HEADS: Final = ("service", "", "slots", "busy", "have to wait", "mean wait", "p95 wait", "p99 wait")
FITS: Final = {
    Fit.GOOD: "the model fits what was measured",
    Fit.HOPEFUL: "the model is too hopeful: tasks waited longer, so expect longer waits here as well",
    Fit.CAREFUL: "the model is too careful: tasks waited less, so expect shorter waits here as well",
    Fit.UNKNOWN: "too few tasks were measured to say whether the model fits",
}
#: Shorter than anything that was measured.
_NOTHING_S: Final = 1e-6


def rows(each: Forecast, with_family: bool) -> Iterator[Sequence[str]]:
    hour = each.hour
    name = f"{hour.service} {hour.family}" if with_family else hour.service
    there = "–" if hour.whole_slots is None else f"{hour.whole_slots}"
    if each.measured is None:
        yield (name, "measured", there, *["–"] * 5)
    else:
        yield (name, "measured", there, "", *_waits(each.measured.waits))
    if each.now is not None and each.asked is not None:
        yield ("", "model", *_case(each.now))
        yield ("", "asked", *_case(each.asked))


def _case(case: Case) -> Sequence[str]:
    return f"{case.slots}", share(case.busy_share), *_waits(case.waits)


def _waits(waits: Waits) -> Sequence[str]:
    return share(waits.share), *(_time(each) for each in (waits.mean_s, waits.p95_s, waits.p99_s))


def _time(value: float) -> str:
    if math.isinf(value):
        return "grows"
    return duration_s(value if value >= _NOTHING_S else 0.0)


def sentences(each: Forecast) -> Iterator[str]:
    at = f"{each.hour.hour_of_day:02}:00 UTC"
    if each.now is None or each.asked is None:
        yield f"from {at}: how many slots there are was not noted, so the model has nothing to say"
        return
    yield f"from {at}: {FITS[each.fit]}"
    yield _verdict(each.asked)


def _verdict(asked: Case) -> str:
    more = asked.slots_needed - asked.slots
    needed = f"the target takes {plural(asked.slots_needed, 'slot')}, {plural(more, 'slot')} more"
    if not asked.keeps_up:
        return f"would not keep up: tasks would ask for more than the slots can do; {needed}"
    return f"would keep up, but {needed}" if more > 0 else "would keep up and meet the target"


def target(wait_s: float) -> str:
    wanted = f"{share(1 - WAIT_SHARE)} of the tasks wait no longer than {duration_s(wait_s)}"
    return f"the target is that {wanted}; each service in its most demanding hour"
