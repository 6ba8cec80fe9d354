"""What share of a service's tasks should end OK, within what time; and when the journal is told of it.

Whether it is met is for the pipeline to say, which reads the journal: a broker treats no task differently for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from famulus.core.clock import NS_PER_S
from famulus.wire import limits
from famulus.wire.rows import BrokerRow

DAYS_MAX: Final = 366
#: A journal is kept for days, and an objective holds for years: so it is told again and again.
AGAIN_NS: Final = 24 * 3600 * NS_PER_S
#: What is told of a service that has no objective any more.
NO_OBJECTIVE: Final = b"null"


class Objective(Struct, frozen=True, forbid_unknown_fields=True):
    #: Of the tasks, between 0 and 1: with 1, a single failure would be too many for ever.
    share: Annotated[float, Meta(gt=0, lt=1)]
    #: From arrival to the end; without it, any time will do.
    within_ms: Annotated[int, Meta(ge=1, le=limits.TIMEOUT_MS_MAX)] | None = None
    #: The days over which the share is taken, up to now.
    days: Annotated[int, Meta(ge=1, le=DAYS_MAX)] = 30


class ObjectiveFacts:
    """Compares the objectives that hold with those that the journal was told of."""

    def __init__(self) -> None:
        self._told: dict[str, Objective] = {}
        self._again_ns = 0

    def look(self, objectives: Mapping[str, Objective], now_ns: int) -> list[BrokerRow]:
        """Those that are new, or are due again, and those that hold no more, by service."""
        due = now_ns >= self._again_ns
        if not due and objectives == self._told:
            return []
        if due:
            self._again_ns = now_ns + AGAIN_NS
        rows = [
            _row(now_ns, service, msgspec.json.encode(objective))
            for service, objective in objectives.items()
            if due or self._told.get(service) != objective
        ]
        rows += [_row(now_ns, service, NO_OBJECTIVE) for service in sorted(self._told.keys() - objectives.keys())]
        self._told = dict(objectives)
        return rows


def _row(now_ns: int, service: str, said: bytes) -> BrokerRow:
    return BrokerRow(now_ns, b"objective", service=service.encode(), detail=said)
