"""How long a call of a function may take, as it was chosen, and what is said when it takes longer."""

from __future__ import annotations

import math
from typing import Final

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.errors import SettingsError
from famulus.wire import reasons

#: Nobody has chosen whether there is a limit.
NOT_CHOSEN: Final = 0

#: What became of a function that took too long.
CANCELLED: Final = "and was cancelled"
KILLED: Final = "and its process was killed"
GOES_ON: Final = "and may still be running"


def limit_ns(whose: str, time_limit_s: float | None) -> int:
    """`whose`: for the error. Infinity is no limit, whatever the worker's is."""
    if time_limit_s is None:
        return NOT_CHOSEN
    if isinstance(time_limit_s, bool) or not time_limit_s > 0:
        raise SettingsError(f"{whose}time_limit_s: seconds, more than 0, not {time_limit_s!r}")
    return NEVER_NS if math.isinf(time_limit_s) else min(int(time_limit_s * NS_PER_S) or 1, NEVER_NS)


def time_limit_reason(time_limit_ns: int, what_became: str) -> str:
    sentence = f"it ran longer than its limit of {time_limit_ns / NS_PER_S:g} s, {what_became}"
    return reasons.reason(reasons.TIME_LIMIT, sentence)
