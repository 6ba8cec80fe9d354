"""Tells every object that must not be used in a forked child that it is a copy. Knows no protocol.

A fork copies everything but the other threads. A connection would then have two processes that write to it and read
from it, and a lock might be held by a thread that does not exist. So whatever has a connection and threads is told,
in every child, that it is a copy: it closes its descriptors and starts afresh when it is used.

What is closed in a child stays open in its parent. But an epoll is one and the same for both, so nothing is removed
from it there.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    def after_fork(self) -> None:
        """You are a copy, in a child with one thread. Called before the fork returns there."""
        ...


_owners: WeakSet[Forkable] = WeakSet()


def tell(owner: Forkable) -> None:
    """Tell it about every fork, for as long as it lives."""
    _owners.add(owner)


def _tell_all() -> None:
    for owner in list(_owners):
        owner.after_fork()


os.register_at_fork(after_in_child=_tell_all)
