"""Socket pairs between this process and its children: end of file means that the other side is gone.

That only holds while nobody else has a copy of a socket, and a fork copies everything. So every process that is forked
from this one, by us or by anybody else (another worker, multiprocessing, a library), closes its copies at once.
"""

from __future__ import annotations

import os
import threading
from socket import AF_UNIX, socket, socketpair

_ours: set[socket] = set()
# Held during every fork, so that there is no pair at that moment that is not yet registered.
_lock = threading.Lock()
_forking = threading.local()


def new_pair(kind: int) -> tuple[socket, socket]:
    """Our end, and the one for a child. Close both with `close`."""
    with _lock:
        pair = socketpair(AF_UNIX, kind)
        _ours.update(pair)
    return pair


def keep(end: socket) -> None:
    """Processes that are forked from this one must not have this socket either."""
    with _lock:
        _ours.add(end)


def close(end: socket) -> None:
    with _lock:
        _ours.discard(end)
        end.close()


def fork_with(end: socket) -> int:
    """Like `os.fork`; of all lifelines of this process, the child keeps only this one."""
    _forking.end = end
    try:
        return os.fork()
    finally:
        del _forking.end


def _close_copies() -> None:
    ours = getattr(_forking, "end", None)
    for each in _ours:
        if each is not ours:
            each.close()
    _ours.clear()
    _lock.release()


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_close_copies)
