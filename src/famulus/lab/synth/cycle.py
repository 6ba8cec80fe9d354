"""How busy a network is over the day: most in the afternoon, least at night. Knows shares only, no tasks."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from famulus.lab.synth.plan import US_PER_HOUR

#: How far the busiest hour is above the mean.
SWING: Final = 0.6
BUSIEST_HOUR: Final = 15.0
_TURN: Final = 2 * math.pi / 24


def _angle(at_us: Any) -> Any:
    return (np.asarray(at_us) / US_PER_HOUR % 24 - BUSIEST_HOUR) * _TURN


def rate(at_us: Any) -> Any:
    """Relative to the mean of a day."""
    return 1.0 + SWING * np.cos(_angle(at_us))


def done(at_us: Any, start_us: int) -> Any:
    """The integral of the rate from the start on, in mean hours."""
    hours = (np.asarray(at_us) - start_us) / US_PER_HOUR
    return hours + SWING / _TURN * (np.sin(_angle(at_us)) - np.sin(_angle(start_us)))


def highest(start_us: int, end_us: int) -> float:
    return float(np.max(rate(np.linspace(start_us, end_us, 200))))
