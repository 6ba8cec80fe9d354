"""Waits until an edit has reached every broker that is alive. It is safe before that; this only shows its progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from famulus.admin.administration import Administration

#: Brokers tell each other once a second which edits they have.
PAUSE_FIRST_S: Final = 0.1
PAUSE_MAX_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Spread:
    seen: int
    brokers: int
    #: Alive, but without the edit.
    behind: tuple[str, ...]
    #: Not alive, so nobody knows whether they have it.
    away: tuple[str, ...]
    #: Not peers of the broker that was asked, so it does not know either.
    unknown: tuple[str, ...] = ()


def look(administration: Administration, edits: Sequence[str]) -> Spread:
    seen = administration.seen(edits)
    if not seen.missing:
        return Spread(seen.seen, seen.brokers, (), ())
    # Only the brokers matter here, so ask for as few keys as possible.
    brokers = administration.show("broker_state/").brokers
    alive = {identity for identity, facts in brokers.items() if facts.alive}
    strangers = {identity for identity, facts in brokers.items() if not facts.peer}
    behind = tuple(identity for identity in seen.missing if identity in alive)
    away = tuple(identity for identity in seen.missing if identity not in alive | strangers)
    return Spread(seen.seen, seen.brokers, behind, away, tuple(each for each in seen.missing if each in strangers))


def wait(
    administration: Administration,
    edits: Sequence[str],
    seconds: float,
    tell: Callable[[Spread], None] = lambda spread: None,
) -> Spread:
    """Returns when every broker that is alive has the edits, or the time is up. `tell` is called after each look."""
    until = time.monotonic() + seconds
    pause = PAUSE_FIRST_S
    while True:
        spread = look(administration, edits)
        tell(spread)
        left = until - time.monotonic()
        if not spread.behind or left <= 0:
            return spread
        time.sleep(min(pause, left))
        pause = min(2 * pause, PAUSE_MAX_S)
