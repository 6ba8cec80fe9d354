"""Ports of loopback that nobody uses.

They are below those that systems give to whoever connects somewhere (32768 and up on most, 16000 and up on some), and
each of the test processes on this machine, of whichever run, has a stretch of its own: a port that was found free stays
free until the broker it is meant for takes it.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

FIRST, LAST = 10_000, 15_999
#: As many test processes as may run side by side.
STRETCHES = 24


def _stretch() -> range:
    """Ours as long as we live; where all are taken, one of them."""
    length = (LAST + 1 - FIRST) // STRETCHES
    for number in random.sample(range(STRETCHES), STRETCHES):
        lock = os.open(Path(tempfile.gettempdir()) / f"famulus-ports-{number}.lock", os.O_CREAT | os.O_RDWR, 0o666)
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        os.close(lock)
    first = FIRST + number * length
    return range(first, first + length)


@cache
def _ports() -> Iterator[int]:
    return itertools.cycle(_stretch())


def free_ports(count: int) -> list[int]:
    return list(itertools.islice(filter(_free, _ports()), count))


def free_port() -> int:
    return free_ports(1)[0]


def _free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
