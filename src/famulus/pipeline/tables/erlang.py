"""Erlang's formulas as columns: how many have to wait for a slot, and how many slots are enough.

Of B, the share that finds all of n slots taken where nobody waits, only the inverse is ever computed: it grows by
1/B(n) = 1 + n/a * 1/B(n-1), all terms positive, so nothing is lost to rounding, and where it grows beyond all doubles
B is nothing, as it should be. C, the share that has to wait where everybody does, follows from B.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def wait_share(erlangs: Column, slots: Column) -> Column:
    """C(slots): null without slots, 1 where the load is more than they can do, 0 without load."""
    a, n = erlangs.cast("double"), slots.cast("int")
    inverse = F.aggregate(F.sequence(F.lit(1), n), F.lit(1.0), lambda was, at: _next_inverse(was, at, a))
    found = F.when(n <= 0, F.lit(1.0)).when(a >= n, F.lit(1.0)).otherwise(_c(inverse, n, a))
    return F.when(n.isNull() | a.isNull(), None).when(a <= 0, F.lit(0.0)).otherwise(found)


def slots_needed(erlangs: Column, service_s: Column, *, wait_s: float, share: float) -> Column:
    """The fewest slots with which at most this share of the tasks waits longer than `wait_s`; 0 without load.

    The share that waits longer than t is C(n) * exp(-(n - a) * t / service_s).
    """
    a = erlangs.cast("double")
    # So far beyond the load, C is far below one in a thousand, whatever the load is.
    most = F.ceil(a + F.sqrt(a) * 6 + 20).cast("int")
    start = F.struct(F.lit(1.0).alias("inverse"), F.lit(None).cast("int").alias("found"))

    def step(state: Column, n: Column) -> Column:
        inverse = _next_inverse(state["inverse"], n, a)
        longer = _c(inverse, n, a) * F.exp(-(n - a) * F.try_divide(F.lit(wait_s), service_s))
        enough = (n > a) & (longer <= share)
        return F.struct(inverse.alias("inverse"), F.coalesce(state["found"], F.when(enough, n)).alias("found"))

    found = F.aggregate(F.sequence(F.lit(1), most), start, step, lambda state: F.coalesce(state["found"], most))
    return F.when((a <= 0) | (service_s <= 0), F.lit(0)).otherwise(found)


def _next_inverse(was: Column, n: Column, a: Column) -> Column:
    return F.lit(1.0) + F.try_divide(n * was, a)


def _c(inverse: Column, n: Column, a: Column) -> Column:
    """B / (1 - (1 - B) * a / n), of the inverse of B."""
    b = F.lit(1.0) / inverse
    return F.try_divide(b, F.lit(1.0) - (F.lit(1.0) - b) * a / n)
