"""The demo's workers, as a user would write them. `famulus worker famulus.demo.workers:shout` runs one."""

from __future__ import annotations

import hashlib
import time

from famulus import Worker

shout = Worker(slots=4)
digest = Worker(slots=4)


@shout.service("shout")
def _shout(body: bytes) -> bytes:
    time.sleep(0.005)
    return body.upper()


@digest.service("digest")
def _digest(body: bytes) -> str:
    time.sleep(0.02)
    return hashlib.sha256(body).hexdigest()
