"""Decides which objectives hold, and when the budget for bad tasks is spent too fast. Knows no Spark and no file.

The budget of an objective is the share of tasks that may be bad. Its burn rate is how many times as many are: at a rate
of 1 the budget lasts exactly as long as the days of the objective.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

_US_PER_HOUR: Final = 3_600_000_000
#: Brokers tell their objectives once a day. What was told longer ago than this holds no more: nobody has it now.
TOLD_WITHIN_US: Final = 49 * _US_PER_HOUR
#: With fewer bad tasks than this, a high rate is chance: in a quiet hour one task may be a large share.
BAD_MIN: Final = 10


@dataclass(frozen=True, slots=True)
class BurnAlarm:
    """The rate has to be reached over a long time, so that it matters, and over a short one, so that it goes on."""

    rate: float
    long_minutes: int
    short_minutes: int


#: As in Google's workbook on site reliability. At the first rate, 2 % of a budget for 30 days are gone in an hour; at
#: the second one, 5 % in six hours.
FAST: Final = BurnAlarm(14.4, 60, 5)
SLOW: Final = BurnAlarm(6.0, 360, 30)


class Objective(Struct, frozen=True, forbid_unknown_fields=True):
    """As brokers write it into the journal."""

    share: Annotated[float, Meta(gt=0, lt=1)]
    within_ms: Annotated[int, Meta(ge=1)] | None
    days: Annotated[int, Meta(ge=1)]

    def last_good_bucket(self, buckets_per_e_fold: int) -> int | None:
        """The bucket of a histogram with the longest time that is good; None if any is."""
        if self.within_ms is None:
            return None
        return math.floor(math.log(self.within_ms * 1_000_000 + 1) * buckets_per_e_fold)


@dataclass(frozen=True, slots=True)
class ToldObjective:
    """What was told last of a service: JSON, as it stands in the journal."""

    service: str
    said: str
    at_us: int


def in_force(told: Iterable[ToldObjective], end_us: int) -> dict[str, Objective]:
    """By service: those that were told in the days before the end of the data, and can be understood."""
    recent = [each for each in told if each.at_us > end_us - TOLD_WITHIN_US]
    found = {each.service: _read(each.said) for each in recent}
    return {service: objective for service, objective in sorted(found.items()) if objective is not None}


def _read(said: str) -> Objective | None:
    """None if there is none any more. A newer broker may say more than we know, which may mean something else."""
    try:
        return msgspec.json.decode(said, type=Objective | None)
    except (msgspec.MsgspecError, UnicodeError):
        return None
