"""How the supervisor treats one of its processes: what it tells it, how patient it is, and what its loss means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from famulus.core.clock import NS_PER_S
from famulus.core.hangs import HANG_NS

START_NS: Final = 30 * NS_PER_S


class WhenLost(Enum):
    """What it means for the broker that a process cannot start, or dies again and again."""

    #: It cannot do without, and ends.
    FATAL = auto()
    #: It does its work without, and tries again every minute.
    RETRIED = auto()
    #: It does its work without from then on.
    TOLERATED = auto()


@dataclass(frozen=True, slots=True)
class Policy:
    #: What it is told when it starts, besides the settings.
    facts: Callable[[], dict[str, Any]] = dict
    #: To be called when it has ended, however.
    on_end: Callable[[], None] = lambda: None
    when_lost: WhenLost = WhenLost.FATAL
    #: What the loss of it is called where the broker goes on.
    missed: str = ""
    #: How long it may say nothing once it is ready, and until then.
    hang_ns: int = HANG_NS
    start_ns: int = START_NS
    #: Everybody waits for it, so it has no time to hang: the system is asked what it does.
    is_waited_for: bool = False
    #: The broker drains by it: its end is what is wanted then.
    ends_the_drain: bool = False
    #: How long it has to finish its work when the broker stops; with none it is killed.
    stop_s: float = 0.0
