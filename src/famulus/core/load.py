"""How much a broker has to do, as one number by which brokers are compared."""

from __future__ import annotations


def load(free: int, busy: int, backlog: int) -> float:
    """0 means that there is nothing to do, 1 that all slots are busy, more that tasks are waiting."""
    slots = free + busy
    return (busy + backlog) / slots if slots else float(backlog > 0)
