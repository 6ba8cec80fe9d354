"""Who takes part in the demo, and what is asked of them.

The workers are as a user would write them: `famulus worker famulus.lab.demo.cast:shout` runs one.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import Final

import famulus

ADMIN: Final = "ada"


ANN, BOB, CID = "ann", "bob", "cid"
#: With their families.
BROKERS: Final = {ANN: "main", BOB: "main", CID: "reserve"}
_NUMBERS: Final = {broker: number for number, broker in enumerate(BROKERS, 1)}


def known_host(broker: str) -> str:
    """Where all others find it: a relay listens there, which the demo can cut."""
    return f"127.0.10.{_NUMBERS[broker]}"


def own_host(broker: str) -> str:
    """Where it really listens. All of 127.0.0.0/8 is this machine."""
    return f"127.0.20.{_NUMBERS[broker]}"


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    delivery: str
    per_second: int
    #: One in this many tasks fails, as promised to the audience; 0 means none.
    fails_every: int
    what: str


MOODY: Final = Service("moody", "at_most_once", 40, 10, "fails at times")
SERVICES: Final = (
    Service("shout", "at_most_once", 200, 0, "fast"),
    Service("digest", "at_least_once", 40, 0, "slow"),
    MOODY,
)
SLOTS: Final = 4


@dataclass(frozen=True, slots=True)
class Worker:
    name: str
    service: str
    #: Its preferred broker.
    home: str


WORKERS: Final = tuple(
    Worker(f"{service.name}-{number}", service.name, home)
    for service in SERVICES
    for number, home in enumerate(BROKERS, 1)
)


# -- what the workers do --------------------------------------------------------------------------------------------

shout = famulus.Worker(slots=SLOTS)
digest = famulus.Worker(slots=SLOTS)
moody = famulus.Worker(slots=SLOTS)


@shout.service("shout")
def _shout(body: bytes) -> bytes:
    time.sleep(0.005)
    return body.upper()


@digest.service("digest")
def _digest(body: bytes) -> str:
    time.sleep(0.04)
    return hashlib.sha256(body).hexdigest()


@moody.service("moody")
def _moody(body: bytes) -> bytes:
    """The body is a number."""
    if int(body) % MOODY.fails_every == 0:
        raise ValueError("not in the mood")
    return body
