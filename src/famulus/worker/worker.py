"""`Worker`: what authors of workers use."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from famulus.errors import FamulusError, SettingsError
from famulus.net import forks
from famulus.net.addresses import backend
from famulus.net.waiting import Bell
from famulus.worker.child import serve
from famulus.worker.coroutines import Coroutines
from famulus.worker.nursery import Nursery
from famulus.worker.processes import Processes
from famulus.worker.runner import Runner
from famulus.worker.services import Services
from famulus.worker.settings import WorkerSettings, new_identity
from famulus.worker.shift import Ending, Shift
from famulus.worker.threads import Threads

log = logging.getLogger("famulus.worker")

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Worker:
    """Takes tasks of its services from a broker, calls your functions, and sends back what they return.

        from famulus import Task, Worker

        worker = Worker("tcp://127.0.0.1:7101", slots=4)

        @worker.service("echo")
        def echo(body: bytes) -> bytes:
            return body

        @worker.service("fetch")
        async def fetch(body: bytes, task: Task) -> str:
            return await download(body.decode(), timeout=task.time_left())

        worker.run()

    A function takes `(body)` or `(body, task)` and returns bytes, bytearray, memoryview, str (sent as UTF-8) or None
    (empty). If it raises, the client gets ERROR with `TypeName: message`, the traceback goes to the log
    `famulus.worker`, and the worker goes on.

    Plain functions run in threads, at most `slots` of them (very quick ones in the thread that does the I/O, which is
    never the main thread); `async` functions as tasks on one asyncio loop; and with `processes=N` plain functions run
    in N child processes, for CPU-bound work. Then all functions must be plain (write a second worker for the others),
    and `run` has to be called before the program has threads, since it forks.

    broker          address of the broker's backend, also as host:port; default: FAMULUS_BACKEND or 127.0.0.1:7101
    brokers         further ones, for when that one is not there or is lost; the worker returns to it when it is back
    at_once         serve all of these brokers at the same time, each with its share of the slots (see below)
    identity        unique per worker; default: host, process id and a random part
    slots           how many tasks at once; default: 1, or one per process
    heartbeat_ms    a longer heartbeat than the broker's, if you wish
    wait            wait for a broker that is not there at the start, instead of raising BrokerUnreachable
    drain_s         how long running tasks may take when the worker is told to stop
    connect_timeout_s   how long the broker may take at the start
    config_file     where to save what the broker says about its family, to know those brokers at the next start
    return_after_s  how long to stay with another broker before looking for the preferred one: a random time in between

    With `at_once` the slots are divided: 8 slots and 2 brokers are 4 for each, so that no slot is promised twice. The
    loss of one broker affects no task of another; it is tried again until it is back, and not replaced by another one.
    """

    def __init__(
        self,
        broker: str | None = None,
        *,
        brokers: Sequence[str] = (),
        identity: str | None = None,
        slots: int | None = None,
        processes: int = 0,
        heartbeat_ms: int | None = None,
        wait: bool = False,
        drain_s: float = 30.0,
        connect_timeout_s: float = 5.0,
        config_file: str | PathLike[str] | None = None,
        return_after_s: tuple[float, float] = (30.0, 90.0),
        at_once: bool = False,
    ) -> None:
        self.settings = WorkerSettings(
            addresses=_addresses(broker, brokers),
            identity=new_identity() if identity is None else identity,
            slots=slots,
            processes=processes,
            heartbeat_ms=heartbeat_ms,
            wait=wait,
            drain_s=drain_s,
            connect_timeout_s=connect_timeout_s,
            config_file=None if config_file is None else Path(config_file),
            return_after_s=return_after_s,
            at_once=at_once,
        )
        self._services = Services()
        self._lock = threading.Lock()
        self._runs = False
        self._ending = Ending()
        self._bell: Bell | None = None
        self._shift: Shift | None = None
        self._own_identity = identity is None
        #: By signal: the handler from before this worker ran.
        self._former_signals: dict[int, Any] = {}
        forks.tell(self)

    @property
    def identity(self) -> str:
        return self.settings.identity

    @property
    def services(self) -> list[str]:
        return list(self._services)

    def service(self, name: str) -> Callable[[_Function], _Function]:
        """Register the decorated function for the service of this name.

        @worker.service("upper")
        def upper(body: bytes) -> bytes:
            return body.upper()
        """

        def register(function: _Function) -> _Function:
            if self._runs:
                raise FamulusError(f"service {name!r}: the worker runs already, and the broker knows its services")
            self._services.add(name, function)
            return function

        return register

    def run(self) -> bool:
        """Serve until `stop` is called, or SIGTERM or SIGINT comes; then drain. True if no task was given up.

        Signals are only handled if this is the main thread. A second one stops at once.
        """
        self._check()
        with self._lock:
            if self._runs:
                raise FamulusError("this worker runs already")
            self._runs = True
        try:
            with self._signals(), ExitStack() as closing:
                return self._serve(closing)
        finally:
            self._forget_run()

    def _forget_run(self) -> None:
        self._bell = self._shift = None
        self._ending = Ending()
        self._runs = False

    def after_fork(self) -> None:
        """This is a copy: what runs belongs to the parent. It may be run here, too, but then as another worker."""
        self._lock = threading.Lock()
        if self._shift is not None:
            self._shift.abandon()
        self._forget_run()
        # With our handlers, the child would ignore signals to end.
        former, self._former_signals = self._former_signals, {}
        for number, what in former.items():
            signal.signal(number, what)
        if self._own_identity:
            self.settings = replace(self.settings, identity=new_identity())

    def stop(self, now: bool = False) -> None:
        """End `run`, from any thread: at once with `now`, else when the running tasks are done or `drain_s` is up."""
        # No lock: this is also called by signal handlers, in the middle of anything.
        self._ending.soon = True
        self._ending.now = self._ending.now or now
        bell = self._bell
        if bell is not None:
            bell.ring()

    def change(self, **settings: Any) -> None:
        """Change settings by their names before the worker runs; None leaves one as it is."""
        given = {key: value for key, value in settings.items() if value is not None}
        self._own_identity = self._own_identity and "identity" not in given
        if "addresses" in given:
            given["addresses"] = _addresses(None, given["addresses"])
        self.settings = replace(self.settings, **given)

    def _check(self) -> None:
        if not self._services:
            raise SettingsError("this worker has no services; register functions with @worker.service('name')")
        if self.settings.processes:
            for service in self._services.values():
                if service.asynchronous:
                    raise SettingsError(
                        f"processes: {service.name!r} is an async function, and those run on one loop, not in "
                        "processes; make it a plain function, or give it to a worker of its own"
                    )

    def _serve(self, closing: ExitStack) -> bool:
        # The nursery comes first: a fork must not copy our threads' locks and zmq's sockets.
        nursery = self._open_nursery(closing)
        bell = Bell()
        closers: list[Callable[[], bool]] = []
        closing.callback(_close_all, closers, bell)
        runners: list[Runner] = [
            Threads(bell, self.settings.capacity)
            if nursery is None
            else Processes(bell, nursery, self.settings.processes)
        ]
        closers.append(runners[0].close)
        if any(service.asynchronous for service in self._services.values()):
            runners.append(Coroutines(bell))
            closers.append(runners[1].close)
        shift = self._shift = Shift(self.settings, self._services, bell, self._ending, runners)
        closers.insert(0, shift.close)
        self._bell = bell
        bell.ring()  # for a stop that came before there was a bell
        return shift.run()

    def _open_nursery(self, closing: ExitStack) -> Nursery | None:
        if not self.settings.processes:
            return None
        # A client's thread does no harm: a child that needs one starts its own.
        harmless = [each for each in threading.enumerate() if each.name == "famulus-client"]
        if threading.active_count() - len(harmless) > 1:
            log.warning("this program has threads already; forking it may copy locks that they hold")
        nursery = Nursery(partial(serve, services=self._services))
        closing.callback(nursery.close)
        return nursery

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Drain at the first SIGTERM or SIGINT, stop at the second."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: FrameType | None) -> None:
            self.stop(now=self._ending.soon)

        former: dict[int, Any] = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        self._former_signals = former
        try:
            yield
        finally:
            self._former_signals = {}
            for number, what in former.items():
                signal.signal(number, what)


def _addresses(broker: str | None, brokers: Sequence[str]) -> tuple[str, ...]:
    """The addresses that somebody chose, the preferred one first; empty if nobody did."""
    if isinstance(brokers, str):
        raise SettingsError(f"brokers: a list of addresses, not {brokers!r}")
    given = [broker, *brokers] if broker else list(brokers)
    from_environment = os.environ.get("FAMULUS_BACKEND")
    if not given and from_environment:
        given = [from_environment]
    return tuple(dict.fromkeys(backend(each) for each in given))


def _close_all(closers: list[Callable[[], bool]], bell: Bell) -> None:
    ended = [close() for close in closers]
    # A function that was given up may still return and ring; a closed descriptor could be somebody else's by then.
    if all(ended):
        bell.close()
