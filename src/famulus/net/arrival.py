"""Somebody who connects to us: where it comes from, and what is known about it."""

from __future__ import annotations


class Arrival:
    __slots__ = ("host", "is_near", "key", "principal", "turn_ns")

    def __init__(self, host: str, is_near: bool) -> None:
        """`is_near`: the host is this machine."""
        self.host = host
        self.is_near = is_near
        #: Who it is, once it has shown that; empty if nobody asks.
        self.principal = ""
        #: By which it has shown that.
        self.key = b""
        #: When it may go on, if it has to wait for its turn (see `zmtp.LATER`).
        self.turn_ns = 0
