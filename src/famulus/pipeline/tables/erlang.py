"""Erlang's formulas as columns: how many have to wait for a slot, and how many slots are enough.

B is the share that finds all of n slots taken if nobody waits. Only its inverse is ever computed: it grows by
1/B(n) = 1 + n/a * 1/B(n-1), all terms positive, so nothing is lost to rounding, and where it exceeds all doubles B is
0, as it should be. C, the share that has to wait if everybody does, follows from B.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def wait_share(erlangs: str, slots: str) -> Column:
    """C(slots): null if slots is null, 1 where the load is more than they can carry, 0 without load."""
    a, n = f"CAST({erlangs} AS DOUBLE)", f"CAST({slots} AS INT)"
    inverse = f"aggregate(sequence(1, {n}), 1D, (was, at) -> {_next_inverse('was', 'at', a)})"
    return F.expr(
        f"""CASE WHEN {n} IS NULL OR {a} IS NULL THEN NULL
                 WHEN {a} <= 0 THEN 0D
                 WHEN {n} <= 0 OR {a} >= {n} THEN 1D
                 ELSE {_c(inverse, n, a)} END"""
    )


def slots_needed(erlangs: str, service_s: str, *, wait_s: float, share: float) -> Column:
    """The fewest slots with which at most this share of the tasks waits longer than `wait_s`; 0 without load.

    The share that waits longer than t is C(n) * exp(-(n - a) * t / service_s).
    """
    a = f"CAST({erlangs} AS DOUBLE)"
    # This far above the load, C is far below one in a thousand, whatever the load is.
    most = f"CAST(ceil({a} + sqrt({a}) * 6 + 20) AS INT)"
    inverse = _next_inverse("state.inverse", "n", a)
    longer = f"{_c(inverse, 'n', a)} * exp(-(n - {a}) * try_divide({wait_s}D, {service_s}))"
    found = f"coalesce(state.found, IF(n > {a} AND {longer} <= {share}D, n, NULL))"
    start = "named_struct('inverse', 1D, 'found', CAST(NULL AS INT))"
    step = f"named_struct('inverse', {inverse}, 'found', {found})"
    finish = f"coalesce(state.found, {most})"
    return F.expr(
        f"""CASE WHEN {a} <= 0 OR {service_s} <= 0 THEN 0
                 ELSE aggregate(sequence(1, {most}), {start}, (state, n) -> {step}, state -> {finish}) END"""
    )


def _next_inverse(was: str, n: str, a: str) -> str:
    return f"(1D + try_divide({n} * {was}, {a}))"


def _c(inverse: str, n: str, a: str) -> str:
    """B / (1 - (1 - B) * a / n), from the inverse of B."""
    b = f"(1D / {inverse})"
    return f"try_divide({b}, 1D - (1D - {b}) * {a} / {n})"
