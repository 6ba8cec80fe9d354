"""How long the tasks of one service took, as counts in buckets that grow by a constant factor. Reads no clock.

Sixteen buckets per factor of e: a bucket is 6 % wide, so whatever is read from them is accurate to 3 %. Integers that
only grow can be added up over brokers and subtracted over time.
"""

from __future__ import annotations

import math
from typing import Final

PER_E_FOLD: Final = 16
#: Bucket b holds durations from e^(b/16) to e^((b+1)/16) nanoseconds; the last one holds a day and more.
BUCKETS: Final = 520


class Latency:
    __slots__ = ("counts", "sum_ns")

    def __init__(self) -> None:
        #: Empty until the first task: most services that are ever named are never used.
        self.counts: list[int] = []
        self.sum_ns = 0

    def add(self, duration_ns: int) -> None:
        if not self.counts:
            self.counts = [0] * BUCKETS
        self.sum_ns += duration_ns
        # `math.log` of an explicit float: compiled code then calls the C function directly.
        bucket = int(math.log(float(duration_ns)) * PER_E_FOLD) if duration_ns > 1 else 0
        if bucket >= BUCKETS:
            bucket = BUCKETS - 1
        self.counts[bucket] += 1
