"""Three services, each with a fault that is planted here, and the workers that do their tasks.

They are as a user would write them: `famulus worker famulus.lab.loop.cast:thumb` runs one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import famulus

MAIN, RESERVE = "main", "reserve"
#: With their families.
BROKERS: Final = {"b1": MAIN, "b2": RESERVE}


@dataclass(frozen=True, slots=True)
class Fault:
    service: str
    what: str
    #: What its clients ask for.
    per_second: int
    #: The kind of the finding that has to see it.
    finding: str
    #: What is known about the service from the beginning.
    settings: dict[str, object]
    #: Of the time of its slowest tasks, at most this share may be left; of all tasks, at least this share has to be OK.
    p99_left_max: float | None = None
    ok_min: float | None = None


THUMB: Final = Fault(
    "thumb",
    "one of its four workers takes a hundred times as long as the others",
    40,
    "bad_worker",
    {"delivery": "at_least_once"},
    p99_left_max=0.5,
)
ORDER: Final = Fault(
    "order",
    "its family has 2 slots for it, half of what its tasks need; another family has 8",
    80,
    "backlog_full",
    {"timeout_ms": 1000},
    ok_min=0.99,
)
QUOTE: Final = Fault(
    "quote", "half of its tasks take longer than its time-out", 10, "time_out_short", {"timeout_ms": 250}, ok_min=0.99
)
FAULTS: Final = (THUMB, ORDER, QUOTE)


@dataclass(frozen=True, slots=True)
class Hired:
    """A worker of this file, by its name there."""

    name: str
    program: str
    service: str
    home: str = "b1"


WORKERS: Final = (
    *(Hired(f"thumb-{number}", "thumb", "thumb") for number in (1, 2, 3)),
    Hired("thumb-4", "slow_thumb", "thumb"),
    Hired("order-1", "order", "order"),
    Hired("order-2", "reserve_order", "order", home="b2"),
    Hired("quote-1", "quote", "quote"),
)

thumb = famulus.Worker(slots=4)
slow_thumb = famulus.Worker(slots=4)
order = famulus.Worker(slots=2)
reserve_order = famulus.Worker(slots=8)
quote = famulus.Worker(slots=8)


@thumb.service("thumb")
def _thumb(body: bytes) -> bytes:
    time.sleep(0.01)
    return body


@slow_thumb.service("thumb")
def _slow_thumb(body: bytes) -> bytes:
    time.sleep(1.0)
    return body


def _order(body: bytes) -> bytes:
    time.sleep(0.05)
    return body


order.service("order")(_order)
reserve_order.service("order")(_order)


@quote.service("quote")
def _quote(body: bytes) -> bytes:
    """The body is a number."""
    time.sleep(0.4 if int(body) % 2 else 0.02)
    return body
