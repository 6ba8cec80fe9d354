"""What must not happen."""

from __future__ import annotations


class Failure(Exception):
    """Something was accepted that nobody said, or never ended; the message says what, for people."""
