"""`Worker`: what authors of workers use."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from time import monotonic, sleep
from types import FrameType
from typing import Any, TypeVar, overload

from famulus.errors import BrokerUnreachable, FamulusError, SettingsError
from famulus.net import forks
from famulus.net.passes import read_pass
from famulus.net.waiting import Bell
from famulus.typed.service import Gives, Service, Takes
from famulus.worker.batching import BatchTerms
from famulus.worker.child import serve
from famulus.worker.coroutines import Coroutines
from famulus.worker.nursery import Nursery
from famulus.worker.processes import Processes
from famulus.worker.registering import Registering, RegisteringBatches
from famulus.worker.runner import Runner
from famulus.worker.services import Services
from famulus.worker.settings import WorkerSettings, chosen_addresses, new_identity
from famulus.worker.shift import Ending, Shift
from famulus.worker.threads import Threads
from famulus.worker.time_limit import limit_ns

log = logging.getLogger("famulus.worker")

#: How often `started` looks whether the broker knows the worker.
LOOK_S = 0.002
#: How long `started` waits for that.
STARTED_WITHIN_S = 30.0

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
    (empty), or yields them; or it has arguments and results of its own, with types: see `service` and `serves`. If it
    raises, the client gets ERROR with `TypeName: message`, the traceback goes to the log `famulus.worker`, and the
    worker goes on.

    Plain functions run in threads, at most `slots` of them (very quick ones in the thread that does the I/O, which is
    never the main thread); `async` functions as tasks on one asyncio loop; and with `processes=N` plain functions run
    in N child processes, for CPU-bound work. Then all functions must be plain (write a second worker for the others),
    and `run` has to be called before the program has threads, since it forks.

    broker          address of the broker's backend, also as host:port; default: FAMULUS_BACKEND or 127.0.0.1:7101
    brokers         further ones, for when that one is not there or is lost; the worker returns to it when it is back
    at_once         serve all of these brokers at the same time, each with its share of the slots (see below)
    identity        unique per worker; default: host, process id and a random part
    slots           how many tasks at once; default: 1, or one per process, or as many as its batches need
    heartbeat_ms    a longer heartbeat than the broker's, if you wish
    wait            wait for a broker that is not there at the start, instead of raising BrokerUnreachable
    drain_s         how long running tasks may take when the worker is told to stop
    connect_timeout_s   how long the broker may take at the start
    config_file     where to save what the broker says about its family, to know those brokers at the next start
    return_after_s  how long to stay with another broker before looking for the preferred one: a random time in between
    time_limit_s    how long a call of a function may take, if its service has no limit of its own; see `service`
    pass_file       the pass of a principal, for brokers that want keys; default: FAMULUS_PASS. It names brokers, too

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
        time_limit_s: float | None = None,
        pass_file: str | PathLike[str] | None = None,
    ) -> None:
        admitted_by = read_pass(pass_file)
        self.settings = WorkerSettings(
            addresses=chosen_addresses(broker, brokers)
            or tuple(admitted_by.backends if admitted_by is not None else ()),
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
            time_limit_s=time_limit_s,
            admitted_by=admitted_by,
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
        """What brokers and the journal call it."""
        return self.settings.identity

    @property
    def services(self) -> list[str]:
        """The names of the services that it has functions for."""
        return list(self._services)

    @property
    def functions(self) -> Services:
        """What is called for each service."""
        return self._services.to_run(limit_ns("", self.settings.time_limit_s))

    @property
    def settings_to_run(self) -> WorkerSettings:
        """With as many slots as batches need, unless somebody chose how many there are."""
        slots = self._services.slots_for_batches(self.settings.processes)
        return replace(self.settings, slots=slots) if slots and self.settings.slots is None else self.settings

    def service(
        self,
        name: str,
        *,
        batch: int | None = None,
        wait_ms: float | None = None,
        time_limit_s: float | None = None,
    ) -> Callable[[_Function], _Function]:
        """Register the decorated function for the service of this name.

        @worker.service("upper")
        def upper(body: bytes) -> bytes:
            return body.upper()

        @worker.service("add")
        def add(a: int, b: int = 0) -> int:  # client.call("add", a=1, b=2)
            return a + b

        With `batch` the function gets a list of up to so many tasks, and returns a list of as many results. A batch
        starts when it is full, or `wait_ms` (5) after its first task. An exception in the place of a result is the
        ERROR of that task alone.

        @worker.service("embed", batch=64)
        def embed(bodies: list[bytes]) -> list[bytes | Exception]:
            return model.run(bodies)

        A function that yields gives a stream: each part goes to the client as it comes, and no more than it will read.

        @worker.service("count")
        def count(body: bytes) -> Iterator[bytes]:  # for part in client.stream("count", b"3")
            for number in range(int(body)):
                yield b"%d" % number

        A call that takes longer than `time_limit_s` is the ERROR time_limit: a coroutine is cancelled, a child process
        is killed, and a thread goes on in vain, since nothing can stop it.
        """
        batches = BatchTerms.of(name, batch, wait_ms)
        time_limit_ns = limit_ns(f"service {name!r}: ", time_limit_s)

        def register(function: _Function) -> _Function:
            self._check_not_running(name)
            self._services.add(name, function, batches, time_limit_ns)
            self._services.check_slots(self.settings.slots)
            return function

        return register

    @overload
    def serves(
        self, service: Service[Takes, Gives], *, time_limit_s: float | None = None
    ) -> Registering[Takes, Gives]: ...

    @overload
    def serves(
        self,
        service: Service[Takes, Gives],
        *,
        batch: int,
        wait_ms: float | None = None,
        time_limit_s: float | None = None,
    ) -> RegisteringBatches[Takes, Gives]: ...

    def serves(
        self,
        service: Service[Any, Any],
        *,
        batch: int | None = None,
        wait_ms: float | None = None,
        time_limit_s: float | None = None,
    ) -> Any:
        """Register the decorated function for a service with types: it takes the value, or `(value, task)`.

        @worker.serves(resize)
        def run(size: Size) -> str:
            return f"{size.width} x {size.height}"

        With `batch` it takes a list of values, and returns a list of results. If it yields, each part is what the
        service gives. See `service`, also for `time_limit_s`.
        """

        def register(function: Any) -> Any:
            self._check_not_running(service.name)
            batches = BatchTerms.of(service.name, batch, wait_ms)
            self._services.add_typed(service, function, batches, limit_ns(f"service {service.name!r}: ", time_limit_s))
            self._services.check_slots(self.settings.slots)
            return function

        return register

    def _check_not_running(self, name: str) -> None:
        if self._runs:
            raise FamulusError(f"service {name!r}: the worker runs already, and the broker knows its services")

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

    @contextmanager
    def started(self, broker: str | None = None, *, timeout: float = STARTED_WITHIN_S) -> Iterator[Worker]:
        """Run in a thread, from when the broker knows the worker until the end of `with`; then drain. For tests.

        with worker.started(broker.backend), Client(broker.frontend) as client:
            assert client.call("add", a=1, b=2) == 3

        With `at_once` all of its brokers have to know it. BrokerUnreachable if one does not within `timeout` seconds.
        """
        if broker is not None:
            self.change(addresses=[broker])
        ended: list[BaseException | None] = []

        def run() -> None:
            try:
                self.run()
                ended.append(None)
            except BaseException as error:
                ended.append(error)

        thread = threading.Thread(target=run, name="famulus-worker-main", daemon=True)
        thread.start()
        try:
            self._wait_until_known(ended, timeout)
            if ended:
                raise ended[0] or FamulusError("the worker was stopped before its broker knew it")
            yield self
        finally:
            if not ended:
                self.stop()
            thread.join()
        if ended[0] is not None:
            raise ended[0]

    def _wait_until_known(self, ended: Sequence[object], timeout_s: float) -> None:
        until = monotonic() + timeout_s
        while not ended and ((shift := self._shift) is None or not shift.is_known):
            if monotonic() > until:
                missing = shift.strangers if shift is not None else self.settings.addresses
                raise BrokerUnreachable(f"after {timeout_s:g} s the worker is not known to {', '.join(missing)}")
            sleep(LOOK_S)

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
            given["addresses"] = chosen_addresses(None, given["addresses"])
        if "pass_file" in given:
            given["admitted_by"] = admitted_by = read_pass(given.pop("pass_file"))
            former = self.settings.admitted_by
            if admitted_by is not None and self.settings.addresses == tuple(former.backends if former else ()):
                given.setdefault("addresses", tuple(admitted_by.backends))
        self.settings = replace(self.settings, **given)

    def _check(self) -> None:
        if not self._services:
            raise SettingsError("this worker has no services; register functions with @worker.service('name')")
        self._services.check_slots(self.settings.slots)
        if self.settings.processes:
            for service in self._services.values():
                if service.asynchronous:
                    raise SettingsError(
                        f"processes: {service.name!r} is an async function, and those run on one loop, not in "
                        "processes; make it a plain function, or give it to a worker of its own"
                    )

    def _serve(self, closing: ExitStack) -> bool:
        # The nursery comes first: a fork must not copy our threads' locks and zmq's sockets.
        services, settings = self.functions, self.settings_to_run
        nursery = self._open_nursery(services, closing)
        bell = Bell()
        closers: list[Callable[[], bool]] = []
        closing.callback(_close_all, closers, bell)
        runners: list[Runner] = [
            Threads(bell, settings.capacity) if nursery is None else Processes(bell, nursery, settings.processes)
        ]
        closers.append(runners[0].close)
        if any(service.asynchronous for service in self._services.values()):
            runners.append(Coroutines(bell))
            closers.append(runners[1].close)
        shift = self._shift = Shift(settings, services, bell, self._ending, runners)
        closers.insert(0, shift.close)
        self._bell = bell
        bell.ring()  # for a stop that came before there was a bell
        return shift.run()

    def _open_nursery(self, services: Services, closing: ExitStack) -> Nursery | None:
        if not self.settings.processes:
            return None
        # A client's thread does no harm: a child that needs one starts its own.
        harmless = [each for each in threading.enumerate() if each.name == "famulus-client"]
        if threading.active_count() - len(harmless) > 1:
            log.warning("this program has threads already; forking it may copy locks that they hold")
        nursery = Nursery(partial(serve, services=services))
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


def _close_all(closers: list[Callable[[], bool]], bell: Bell) -> None:
    ended = [close() for close in closers]
    # A function that was given up may still return and ring; a closed descriptor could be somebody else's by then.
    if all(ended):
        bell.close()
