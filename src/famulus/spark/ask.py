"""`ask`: a column of a DataFrame that a service computes."""

from __future__ import annotations


def ask() -> None:
    """Not yet."""
