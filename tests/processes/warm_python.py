"""A Python that has Famulus loaded already: programs are forked from it, each a process of its own.

python -u warm_python.py SOCKET

To start Python and load everything takes ten times as long as most commands do. An order comes as a datagram with the
descriptors of the program: its standard input, output and error, and one on which we tell its process id and, when it
has ended, how. Brokers start their own processes as they always do: those load everything themselves.
"""

from __future__ import annotations

import ctypes
import gc
import io
import json
import os
import pkgutil
import runpy
import selectors
import socket
import sys
from contextlib import redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

#: Modules that commands import when they are run. None may start a thread: those do not survive a fork.
PACKAGES = ("famulus.admin", "famulus.client", "famulus.worker")
MODULES = (
    "famulus.broker.founding",
    "famulus.broker.joining",
    "famulus.broker.supervisor",
    "famulus.cli.admin.words",
    "famulus.cli.logs",
)
ORDER_BYTES_MAX = 1 << 17
CLONE_NEWNET = 0x40000000
FILES_MAX = 1024


def load() -> None:
    """Also what Typer imports when it reads a command line."""
    from famulus.cli.main import new_app

    for package in PACKAGES:
        for module in pkgutil.iter_modules(import_module(package).__path__):
            import_module(f"{package}.{module.name}")
    for name in MODULES:
        import_module(name)
    with redirect_stdout(io.StringIO()):
        new_app()(["explain", "--help"], standalone_mode=False)
    assert len(os.listdir("/proc/self/task")) == 1, "something that was imported has started threads"
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
        sys.argv = arguments
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(program).resolve().parent)
        sys.argv = [program, *arguments]
        main = sys.modules["__main__"] = ModuleType("__main__")
        main.__file__ = program
        exec(compile(Path(program).read_bytes(), program, "exec"), main.__dict__)


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
