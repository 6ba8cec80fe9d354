"""How long tasks would wait: by the model now, as it was measured, and in the case that is asked about. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from famulus.pipeline.whatif.change import AskedChange
from famulus.pipeline.whatif.erlang import ErlangQueue, slots_needed

#: The target that the table `capacity` has, too: this share of the tasks at most waits longer.
WAIT_S: Final = 0.1
WAIT_SHARE: Final = 0.05
#: To be given to a worker takes a moment, which is no wait.
NO_WAIT_S: Final = 0.001
#: A model whose 95th percentile is within this factor of the measured one fits; so do two that are both this short.
FIT_FACTOR: Final = 2.0
FIT_S: Final = 0.01
#: Of fewer tasks a 95th percentile says little.
TASKS_MIN: Final = 100


@dataclass(frozen=True, slots=True)
class BusiestHour:
    """The most demanding hour of the day of a service, on the day with the most load: from the table `capacity`."""

    service: str
    family: str
    hour_of_day: int
    erlangs: float
    service_s: float
    #: Mean over the days; None: nobody noted them.
    slots: float | None

    @property
    def whole_slots(self) -> int | None:
        return None if self.slots is None else math.floor(self.slots)


@dataclass(frozen=True, slots=True)
class Waits:
    """`share`: of the tasks that wait longer than NO_WAIT_S. Infinite: the line grows for as long as the load lasts."""

    share: float
    mean_s: float
    p95_s: float
    p99_s: float


@dataclass(frozen=True, slots=True)
class Measured:
    """In that hour of that day."""

    tasks: int
    waits: Waits


@dataclass(frozen=True, slots=True)
class Case:
    """What the model says."""

    slots: int
    busy_share: float
    keeps_up: bool
    waits: Waits
    #: For the target.
    slots_needed: int


class Fit(Enum):
    GOOD = "good"
    #: Tasks waited longer than the model says: they come in bursts, or workers were away.
    HOPEFUL = "hopeful"
    #: They waited less: they come more evenly than at random, or take more alike.
    CAREFUL = "careful"
    #: Too few tasks.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Forecast:
    hour: BusiestHour
    measured: Measured | None
    #: None: the slots are not known, or there are none.
    now: Case | None
    asked: Case | None

    @property
    def fit(self) -> Fit:
        if self.measured is None or self.now is None or self.measured.tasks < TASKS_MIN:
            return Fit.UNKNOWN
        said, seen = (max(each.p95_s, FIT_S) for each in (self.now.waits, self.measured.waits))
        if seen > said * FIT_FACTOR:
            return Fit.HOPEFUL
        return Fit.CAREFUL if seen * FIT_FACTOR < said else Fit.GOOD


def forecast(hour: BusiestHour, measured: Measured | None, change: AskedChange, *, wait_s: float = WAIT_S) -> Forecast:
    if not (slots := hour.whole_slots):
        return Forecast(hour, measured, None, None)
    erlangs = change.erlangs(hour.service, hour.erlangs)
    asked = _case(erlangs, hour.service_s, change.slots_of(hour.service, slots), wait_s)
    return Forecast(hour, measured, _case(hour.erlangs, hour.service_s, slots, wait_s), asked)


def _case(erlangs: float, service_s: float, slots: int, wait_s: float) -> Case:
    queue = ErlangQueue(erlangs, service_s, slots)
    waits = Waits(queue.longer_than(NO_WAIT_S), queue.mean_wait_s, queue.wait_s(0.95), queue.wait_s(0.99))
    needed = slots_needed(erlangs, service_s, wait_s=wait_s, share=WAIT_SHARE)
    return Case(slots, queue.busy_share, queue.keeps_up, waits, needed)


def busiest(capacity: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of each service and family the row of its most demanding hour; the shortest of slots first."""
    worst: dict[tuple[str, str], dict[str, Any]] = {}
    for row in capacity:
        key = row["service"], row["family"]
        if key not in worst or _demand(row) > _demand(worst[key]):
            worst[key] = dict(row)
    return sorted(worst.values(), key=lambda row: (-_demand(row)[0], -row["erlangs_peak"], row["service"]))


def hour_of(row: Mapping[str, Any]) -> BusiestHour:
    """A row of `capacity`."""
    erlangs, service_s = float(row["erlangs_peak"]), float(row["service_s"])
    return BusiestHour(row["service"], row["family"], int(row["hour_of_day"]), erlangs, service_s, row["slots"])


def _demand(row: Mapping[str, Any]) -> tuple[int, int, float]:
    return row["slots_missing"] or 0, row["slots_needed"], row["erlangs_peak"]
