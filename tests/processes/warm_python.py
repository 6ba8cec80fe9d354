"""A Python that has Famulus loaded already: programs are forked from it, each a process of its own.

python -u warm_python.py SOCKET

To start Python and load everything takes ten times as long as most commands do. An order comes as a datagram with the
descriptors of the program: its standard input, output and error, and one on which we tell its process id and, when it
has ended, how. A broker that was forked from it forks its own processes, too.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import io
import json
import logging
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
from contextlib import redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

#: Modules that commands import when they are run. None may start a thread: those do not survive a fork.
PACKAGES = ("famulus.admin", "famulus.broker", "famulus.client", "famulus.worker")
MODULES = ("famulus.cli.admin.words", "famulus.cli.logs", "famulus.web.herald")
#: Threads of libraries that see to forks themselves: that of Arrow's allocator.
AT_EASE_WITH_FORKS = {"jemalloc_bg_thd"}
ORDER_BYTES_MAX = 1 << 17
CLONE_NEWNET = 0x40000000
FILES_MAX = 1024


def load() -> None:
    """Also what Typer imports when it reads a command line."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy's would start threads when it is imported
    from famulus.cli.main import new_app

    for package in PACKAGES:
        for module in pkgutil.iter_modules(import_module(package).__path__):
            import_module(f"{package}.{module.name}")
    for name in MODULES:
        import_module(name)
    with redirect_stdout(io.StringIO()):
        new_app()(["explain", "--help"], standalone_mode=False)
    threads = {Path(f"/proc/self/task/{thread}/comm").read_text().strip() for thread in os.listdir("/proc/self/task")}
    assert len(threads - AT_EASE_WITH_FORKS) == 1, f"something that was imported has started threads: {threads}"
    gc.collect()
    gc.freeze()


def serve(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Fork for each order. Ends in each of the new processes, with its order and descriptors, and with nothing for
    us when nobody is left to order anything."""
    selector = selectors.DefaultSelector()
    selector.register(control, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.data is not None:
                pid, told = key.data
                _, status = os.waitpid(pid, 0)
                _tell(told, os.waitstatus_to_exitcode(status))
                os.close(told)
                selector.unregister(key.fd)
                os.close(key.fd)
                continue
            text, descriptors, _, _ = socket.recv_fds(control, ORDER_BYTES_MAX, 4)
            if not text:
                return None
            *standard, told = descriptors
            pid = os.fork()
            if pid == 0:
                # Now, since the collector would close whatever then has their numbers.
                selector.close()
                control.close()
                return json.loads(text), standard
            selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, told))
            _tell(told, pid)
            for descriptor in standard:
                os.close(descriptor)


def _tell(descriptor: int, number: int) -> None:
    with suppress(BrokenPipeError):  # who ordered it may have gone
        os.write(descriptor, b"%d\n" % number)


def become(order: dict[str, Any], standard: list[int]) -> None:
    """Be the program, as if it had been started in the usual way."""
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
    os.closerange(3, FILES_MAX)
    os.environ.clear()
    os.environ.update(order["env"])
    if order["new_session"]:
        os.setsid()
    if order["namespace"]:
        _enter(order["namespace"])
    os.chdir(order["cwd"])
    program, *arguments = order["program"]
    if program == "-m":
        sys.path[0] = order["cwd"]
        sys.modules["famulus.broker.child"].subprocess = _Subprocess  # type: ignore[attr-defined]
        run_module(*arguments)
    else:
        sys.path[0] = str(Path(program).resolve().parent)
        sys.argv = [program, *arguments]
        main = sys.modules["__main__"] = ModuleType("__main__")
        main.__file__ = program
        exec(compile(Path(program).read_bytes(), program, "exec"), main.__dict__)


def run_module(name: str, *arguments: str) -> None:
    # It may be loaded already, and is to run as the program and not as that module.
    sys.modules.pop(name, None)
    sys.argv = [name, *arguments]
    runpy.run_module(name, run_name="__main__", alter_sys=True)


class ForkedPopen(subprocess.Popen[Any]):
    """A process of a broker, forked from its supervisor, which has loaded what it needs."""

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, *rest: Any) -> None:
        pipes = rest[6:12]
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _be_child(args[2], pipes[0], pipes[3])
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


class _Subprocess:
    """All that a supervisor uses of the module of that name."""

    Popen = ForkedPopen
    PIPE = subprocess.PIPE
    TimeoutExpired = subprocess.TimeoutExpired


def _be_child(module: str, standard_input: int, standard_output: int) -> NoReturn:
    """Nothing of the supervisor is left but what it has loaded; its frames, though dead, keep their objects."""
    code = 1
    try:
        os.setsid()
        os.dup2(standard_input, 0)
        os.dup2(standard_output, 1)
        os.closerange(3, FILES_MAX)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        log = logging.getLogger("famulus")
        log.handlers.clear()
        log.setLevel(logging.NOTSET)
        # By this, tests know it: as its command line it has ours.
        Path("/proc/self/comm").write_text(module.rpartition(".")[2])
        run_module(module)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(code)


def _enter(namespace: str) -> None:
    descriptor = os.open(namespace, os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns", namespace)
    os.close(descriptor)


if __name__ == "__main__":
    load()
    ordered = serve(socket.socket(fileno=int(sys.argv[1])))
    if ordered is not None:
        become(*ordered)
