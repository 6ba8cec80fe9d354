"""Ports of loopback that nobody uses.

They are below those that systems give to whoever connects somewhere (32768 and up on most, 16000 and up on some), and
each of the test processes that run side by side has a stretch of its own: a port that was found free stays free until
the broker it is meant for takes it.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import socket
from collections.abc import Iterator

FIRST, LAST = 10_000, 15_999
#: As many test processes as may run side by side.
STRETCHES = 12


def _stretch() -> range:
    worker = re.search(r"\d+", os.environ.get("PYTEST_XDIST_WORKER", ""))
    number = int(worker[0]) if worker else 0
    length = (LAST + 1 - FIRST) // STRETCHES
    first = FIRST + number % STRETCHES * length
    return range(first, first + length)


def _round_and_round(ports: range) -> Iterator[int]:
    # From somewhere in the middle: other runs of the suite on this machine have the same stretches.
    begin = random.SystemRandom().randrange(len(ports))
    return itertools.cycle([*ports[begin:], *ports[:begin]])


_ports = _round_and_round(_stretch())


def free_ports(count: int) -> list[int]:
    return list(itertools.islice(filter(_free, _ports), count))


def free_port() -> int:
    return free_ports(1)[0]


def _free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
