"""The demo's workers, as a user would write them. `famulus worker famulus.lab.demo.workers:shout` runs one."""

from __future__ import annotations

import hashlib
import time

from famulus import Worker
from famulus.lab.demo.cast import SERVICES, SLOTS

FAILS_EVERY = {service.name: service.fails_every for service in SERVICES}["moody"]

shout = Worker(slots=SLOTS)
digest = Worker(slots=SLOTS)
moody = Worker(slots=SLOTS)


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
    if int(body) % FAILS_EVERY == 0:
        raise ValueError("not in the mood")
    return body
