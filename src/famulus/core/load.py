"""How much a broker has to do, as one number by which brokers are compared."""

from __future__ import annotations


def load(free: int, busy: int, backlog: int) -> float:
    """From 0, nothing to do, upwards: 1 means that all slots are busy, more that tasks wait."""
    slots = free + busy
    return (busy + backlog) / slots if slots else float(backlog > 0)
