"""The process that forks the children. It has one thread and no zmq, ever, so its forks are safe at any time.

It is forked from the worker before the worker has threads and sockets, so its memory holds the functions: nothing has
to be imported again or sent. The worker asks it over a lifeline, one question at a time:

    "F" and the child's end of a new pair     fork a child that serves this pair       the child's pid
    "R" and a pid                             the child is dead: how did it die?       its wait status

When the lifeline ends, because the worker closed it or was killed, every child is killed, and the nursery ends.
"""

from __future__ import annotations

import gc
import os
import signal
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from socket import SOCK_SEQPACKET, recv_fds, send_fds, socket
from time import monotonic, sleep
from types import FrameType
from typing import NoReturn

from famulus.errors import NurseryDied
from famulus.worker import lifelines

_NUMBER = struct.Struct("=i")
#: How long children may take to end by themselves when their lifeline has ended.
GRACE_S = 0.3


class Nursery:
    """The worker's end."""

    def __init__(self, serve: Callable[[socket], None]) -> None:
        """Fork the nursery; each child will call `serve` with its end of a pair."""
        # Otherwise every child would write again what is still buffered.
        _flush()
        self._lock = threading.Lock()
        self._line, theirs = lifelines.new_pair(SOCK_SEQPACKET)
        self.pid = lifelines.fork_with(theirs)
        if self.pid == 0:
            _exit_after(partial(_live, theirs, serve))
        lifelines.close(theirs)

    def fork(self, theirs: socket) -> int:
        """The pid of a new child that serves this end of a pair."""
        return self._ask(b"F", theirs)

    def bury(self, pid: int) -> str:
        """How a child died, once its lifeline has ended."""
        code = os.waitstatus_to_exitcode(self._ask(b"R" + _NUMBER.pack(pid)))
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def close(self) -> None:
        lifelines.close(self._line)
        with suppress(ChildProcessError):  # somebody else took its exit status, or SIGCHLD is ignored
            os.waitpid(self.pid, 0)

    def _ask(self, question: bytes, end: socket | None = None) -> int:
        with self._lock:
            try:
                send_fds(self._line, [question], [end.fileno()] if end is not None else [])
                answer = self._line.recv(_NUMBER.size)
            except OSError:
                answer = b""
        if not answer:
            raise NurseryDied
        number: int = _NUMBER.unpack(answer)[0]
        return number


def _exit_after(life: Callable[[], None]) -> NoReturn:
    """What a forked process does. Never returns into the stack, which is a copy of the parent's."""
    code = 1
    try:
        life()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        _flush()
        os._exit(code)


def _live(line: socket, serve: Callable[[socket], None]) -> None:
    """The life of the nursery: answer questions."""
    _leave_signals_to_the_worker()
    gc.freeze()  # a collection would touch, and so copy, every page that the children share
    pids: set[int] = set()
    while True:
        question, descriptors, _, _ = recv_fds(line, 16, 1)
        if not question:
            break
        if question[:1] == b"F":
            number = _fork_child(line, socket(fileno=descriptors[0]), serve)
            pids.add(number)
        else:
            (pid,) = _NUMBER.unpack(question[1:])
            pids.discard(pid)
            # Its socket is closed, so it is dying or broken; if it is dying, this changes nothing.
            os.kill(pid, signal.SIGKILL)
            number = os.waitpid(pid, 0)[1]
        line.send(_NUMBER.pack(number))
    _end(pids)


def _fork_child(line: socket, end: socket, serve: Callable[[socket], None]) -> int:
    def live() -> None:
        line.close()
        lifelines.keep(end)
        gc.unfreeze()
        serve(end)

    pid = os.fork()
    if not pid:
        _exit_after(live)
    end.close()
    return pid


def _end(pids: set[int]) -> None:
    until = monotonic() + GRACE_S
    while pids:
        pids -= {pid for pid in pids if os.waitpid(pid, os.WNOHANG)[0]}
        if monotonic() > until:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            return
        sleep(0.005)


def _leave_signals_to_the_worker() -> None:
    """Ctrl-C and the service manager's signals reach the children too, but it is the worker that lets them finish."""

    # Not SIG_IGN: that would be inherited by programs that a function starts.
    def nothing(number: int, frame: FrameType | None) -> None:
        pass

    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, nothing)
    signal.signal(signal.SIGTERM, nothing)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
