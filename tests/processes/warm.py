"""Starts programs of Python without the time that it takes to start Python: see `warm_python.py`."""

from __future__ import annotations

import atexit
import json
import os
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

#: What Python, or Famulus when it is imported, reads from the environment: who wants it otherwise gets a Python anew.
READ_AT_START = ("FAMULUS_CORE", "FAMULUS_PUMP")


class Popen(subprocess.Popen[Any]):
    """As in `subprocess`, but programs of this Python are forked from one that has Famulus loaded.

    All others, and those that want another environment than ours for what is read only once, are started as usual.
    """

    _told: int | None = None

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, *rest: Any) -> None:
        (pass_fds, cwd, env, _, _, shell, *pipes, _, _, _, _, _, new_session, _) = rest[:21]
        order = None if shell or pass_fds or preexec_fn else _order(args, cwd, env, new_session)
        if order is None:
            super()._execute_child(args, executable, preexec_fn, close_fds, *rest)  # type: ignore[misc]
            return
        read_in, _, _, write_out, _, write_err = pipes
        standard = [given if given >= 0 else usual for usual, given in enumerate((read_in, write_out, write_err))]
        self._told, told = os.pipe()
        try:
            _warm_python().send(order, [*standard, told])
        finally:
            os.close(told)
        self._child_created = True
        self._buffer = b""
        self.pid = self._hear(None) or 0
        assert self.pid, "the warm Python is gone"
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _hear(self, timeout: float | None) -> int | None:
        """The next number, if there is one in time."""
        assert self._told is not None
        while b"\n" not in self._buffer:
            if not select.select([self._told], [], [], timeout)[0]:
                return None
            piece = os.read(self._told, 64)
            assert piece, "the warm Python is gone"
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        return int(line)

    def _internal_poll(self, _deadstate: int | None = None, **named: Any) -> int | None:
        if self._told is None and self.returncode is None:
            return super()._internal_poll(_deadstate, **named)  # type: ignore[misc,no-any-return]
        # With a state it is asked by the collector, perhaps when all is over.
        return self._ended(0) if _deadstate is None else _deadstate

    def _wait(self, timeout: float | None) -> int:
        if self._told is None and self.returncode is None:
            return super()._wait(timeout)  # type: ignore[misc,no-any-return]
        code = self._ended(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def _ended(self, timeout: float | None) -> int | None:
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                code = self._hear(timeout)
                if code is not None:
                    self.returncode = code
                    assert self._told is not None
                    os.close(self._told)
                    self._told = None
        return self.returncode


def run(
    command: list[str],
    *,
    input: str | bytes | None = None,
    timeout: float | None = None,
    check: bool = False,
    capture_output: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """As in `subprocess`."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        options |= {"stdin": subprocess.PIPE}
    with Popen(command, **options) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


class _WarmPython:
    def __init__(self) -> None:
        self.environment = read_at_start(os.environ)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-u", str(Path(__file__).with_name("warm_python.py")), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        self._lock = threading.Lock()
        atexit.register(self.close)

    def send(self, order: dict[str, Any], descriptors: list[int]) -> None:
        with self._lock:
            socket.send_fds(self._control, [json.dumps(order).encode()], descriptors)

    def close(self) -> None:
        """It ends when nobody is left to order anything."""
        self._control.close()
        self._process.wait()


_python: _WarmPython | None = None
_lock = threading.Lock()


def _warm_python() -> _WarmPython:
    global _python
    with _lock:
        if _python is None:
            _python = _WarmPython()
        return _python


def _order(args: Any, cwd: Any, env: Any, new_session: bool) -> dict[str, Any] | None:
    """What the warm Python is to be told, if this is something for it."""
    words = [os.fspath(word) for word in args] if not isinstance(args, str) else [args]
    namespace = ""
    if words[0] == "nsenter" and words[1].startswith("--net="):
        namespace, words = words[1].removeprefix("--net="), words[2:]
    if words[0] != sys.executable or not (words[1:3] == ["-m", "famulus"] or words[1:2][0].endswith(".py")):
        return None
    environment = dict(os.environ if env is None else env)
    if read_at_start(environment) != _warm_python().environment:
        return None
    where = os.path.abspath(cwd or os.getcwd())
    return {
        "program": words[1:],
        "cwd": where,
        "env": environment,
        "namespace": namespace,
        "new_session": bool(new_session),
    }


def read_at_start(environment: Any) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name in READ_AT_START or (name.startswith("PYTHON") and name != "PYTHONUNBUFFERED")
    }
