"""Real processes on real sockets: brokers that a test starts, looks into, kills, and that end with it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import zmq
from tests.processes import warm
from tests.stolen_time import own_time_s

from famulus import Client
from famulus.errors import OutcomeError

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent


#: How many times as long as on an idle machine something may take: tests share theirs with other tests, and with more.
BUSY = 4


def wait_until(holds: Callable[[], object], within_s: float = 10.0, what: str = "it") -> None:
    """Wait for a condition, and fail in its own words when it does not come true, not even on a busy machine."""
    deadline = own_time_s() + BUSY * within_s
    looked = time.monotonic()
    while not holds():
        assert own_time_s() < deadline, f"{what} did not come true within {BUSY} times {within_s} s"
        # Twice as long as it took to look: others need the processor to make it come true.
        time.sleep(min(max(0.005, 2 * (time.monotonic() - looked)), 0.2))
        looked = time.monotonic()


class Process:
    """A child whose lines can be waited for."""

    def __init__(self, *command: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> None:
        self._process = warm.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
            cwd=cwd,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait_for_line(self, pattern: str, within_s: float = 20.0) -> re.Match[str]:
        deadline = own_time_s() + BUSY * within_s
        while True:
            ended = self._process.poll() is not None
            if ended:
                self._reader.join(within_s)  # its last words may be on their way
            for line in list(self.lines):
                if match := re.search(pattern, line):
                    return match
            assert not ended, f"it ended ({self._process.returncode}) without {pattern!r}:\n{self.output}"
            assert own_time_s() < deadline, f"no {pattern!r} within {BUSY} times {within_s} s:\n{self.output}"
            time.sleep(0.005)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self, within_s: float = 60.0) -> int:
        code = self._process.wait(BUSY * within_s)
        self._reader.join(within_s)
        return code

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        self._process.wait()
        self._reader.join(10)
        assert self._process.stdout is not None
        self._process.stdout.close()


def descendants(pid: int) -> list[int]:
    try:
        children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return [each for child in children for each in (child, *descendants(child))]


class BrokerProcess(Process):
    """A `famulus broker` on free ports of loopback."""

    def __init__(self, *flags: str, ulimit: str = "", enter: tuple[str, ...] = (), wait: bool = True) -> None:
        ports = [] if "--frontend-port" in flags else ["--frontend-port", "0", "--backend-port", "0"]
        if not any(flag.startswith("--http") for flag in flags):
            ports.append("--no-http")  # a process that most tests do not need
        if not any(flag.startswith("--journal") or flag == "--no-journal" for flag in flags):
            ports.append("--no-journal")
        limited = ["sh", "-c", f'ulimit {ulimit} && exec "$0" "$@"'] if ulimit else []
        super().__init__(*enter, *limited, sys.executable, "-m", "famulus", "broker", *ports, *flags)
        self.frontend = self.backend = ""
        if wait:
            self.wait_until_ready()

    def perish(self) -> None:
        """All of it at once, as if its machine were gone."""
        for pid in (self.pid, self.dispatcher, *self.routers):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """Its dispatcher does nothing meanwhile, nor does its supervisor, which would take that for a hang."""
        sleepers = (self.pid, self.dispatcher)
        for pid in sleepers:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in reversed(sleepers):
                os.kill(pid, signal.SIGCONT)

    def wait_until_ready(self, within_s: float = 20.0) -> None:
        try:
            ready = self.wait_for_line(r"is ready: clients (\S+), workers (\S+) ", within_s)
        except BaseException:
            self.close()
            raise
        self.frontend, self.backend = ready[1], ready[2]

    def children(self, module: str, package: str = "broker") -> list[int]:
        """The pids of its processes of this kind that live now."""
        try:
            pids = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        except OSError:
            return []  # it has ended
        names = (f"famulus.{package}.{module}", f"{module}\n")
        return [int(pid) for pid in pids if any(name in _command(pid) for name in names)]

    @property
    def dispatcher(self) -> int:
        (pid,) = self.children("dispatcher")
        return pid

    @property
    def routers(self) -> list[int]:
        return self.children("router")

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()

    def close(self) -> None:
        for pid in (
            (*self.children("dispatcher"), *self.children("scribe"), *self.routers)
            if self._process.poll() is None
            else ()
        ):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)  # a stopped one could not see that we end
        super().close()


def _command(pid: str) -> str:
    """Its command line, and the name that it has given itself: see `warm_python.py`. One that is dead has none."""
    try:
        line, name = (Path(f"/proc/{pid}/{file}").read_text() for file in ("cmdline", "comm"))
    except OSError:
        return ""
    return line and line + name


def memory_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


@pytest.fixture
def processes() -> Iterator[Callable[..., Process]]:
    """Start processes that end with the test."""
    started: list[Process] = []

    def start(*command: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> Process:
        started.append(Process(*command, env=env, cwd=cwd))
        return started[-1]

    yield start
    for process in reversed(started):
        process.close()


@pytest.fixture
def brokers() -> Iterator[Callable[..., BrokerProcess]]:
    """Start brokers with flags; they end with the test."""
    started: list[BrokerProcess] = []

    def start(*flags: str, ulimit: str = "", wait: bool = True) -> BrokerProcess:
        started.append(BrokerProcess(*flags, ulimit=ulimit, wait=wait))
        return started[-1]

    yield start
    for broker in reversed(started):
        broker.close()


@pytest.fixture
def broker(brokers: Callable[..., BrokerProcess]) -> BrokerProcess:
    """One broker with two routers and short heartbeats."""
    return brokers("--routers", "2", "--heartbeat-ms", "1000")


# -- workers --------------------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """One line of a worker's ledger: a call that began."""

    message_id: str
    attempt: int
    service: str


class WorkerProcess(Process):
    """A worker that has said that it is ready."""

    def __init__(self, *command: str, ledger: Path | None = None, env: dict[str, str] | None = None) -> None:
        super().__init__(sys.executable, *command, env=env)
        self._ledger = ledger
        try:
            self.wait_for_line("is ready: ")
        except BaseException:
            self.close()
            raise

    @property
    def ledger(self) -> list[Entry]:
        assert self._ledger is not None
        # A last line without its end is one that the death of the worker cut short, or that is being written.
        lines = [line.split() for line in self._ledger.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [Entry(message_id, int(attempt), service) for message_id, attempt, service in lines]

    def times_ready(self) -> int:
        return sum(" is ready" in line for line in self.lines)

    def wait_until_ready_again(self, times: int = 2) -> None:
        wait_until(lambda: self.times_ready() >= times, 20, f"ready {times} times, but:\n{self.output}\nThat")


@pytest.fixture
def ledger_workers(tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    """Start workers that obey the bodies of their tasks and keep a ledger; they end with the test."""
    started: list[WorkerProcess] = []

    def start(backend: str, *services: str, slots: int = 8, env: dict[str, str] | None = None) -> WorkerProcess:
        ledger = tmp_path / f"ledger-{len(started)}"
        script = str(HERE / "ledger_worker.py")
        started.append(WorkerProcess(script, backend, str(ledger), str(slots), *services, ledger=ledger, env=env))
        return started[-1]

    yield start
    for worker in reversed(started):
        worker.close()


@pytest.fixture
def echo_workers() -> Iterator[Callable[..., WorkerProcess]]:
    """Start workers that echo; they end with the test."""
    started: list[WorkerProcess] = []

    def start(backend: str, *services: str, slots: int = 200) -> WorkerProcess:
        started.append(WorkerProcess(str(HERE / "echo_worker.py"), backend, str(slots), *(services or ("echo",))))
        return started[-1]

    yield start
    for worker in reversed(started):
        worker.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for a whole file of tests that do it no harm: `echo` with 200 slots, `once` (a ledger) with 4."""
    ledger = tmp_path_factory.mktemp("served") / "ledger"
    with ExitStack() as closing:
        broker = BrokerProcess("--routers", "1", "--heartbeat-ms", "1000")
        closing.callback(broker.close)
        echo = WorkerProcess(str(HERE / "echo_worker.py"), broker.backend, "200", "echo")
        closing.callback(echo.close)
        once = WorkerProcess(str(HERE / "ledger_worker.py"), broker.backend, str(ledger), "4", "once", ledger=ledger)
        closing.callback(once.close)
        yield broker


# -- clients --------------------------------------------------------------------------------------------------------


class Ended(NamedTuple):
    """How a task ended, and when (on the clock of `time.monotonic`)."""

    message_id: str
    outcome: str
    code: str
    body: bytes
    at: float


class Book:
    """The clients' side: what was asked under which message_id, and how it ended."""

    def __init__(self, client: Client, prefix: str = "task") -> None:
        self._client = client
        self._prefix = prefix
        self.sent: dict[str, float] = {}
        self.ended: dict[str, Ended] = {}

    def ask(self, service: str, body: bytes, timeout: float = 20.0) -> str:
        """Send a task; its end is noted when it comes."""
        message_id = f"{self._prefix}-{len(self.sent)}"
        self.sent[message_id] = time.monotonic()
        future = self._client.submit(service, body, message_id=message_id, timeout=timeout)

        def note(_: object) -> None:
            error = future.exception()
            if error is None:
                ended = Ended(message_id, "OK", "", future.result(), time.monotonic())
            else:
                assert isinstance(error, OutcomeError)
                ended = Ended(message_id, error.outcome, error.code, error.body, time.monotonic())
            assert message_id not in self.ended
            self.ended[message_id] = ended

        future.add_done_callback(note)
        return message_id

    @property
    def open(self) -> list[str]:
        return [message_id for message_id in list(self.sent) if message_id not in self.ended]

    def wait_for_all(self, within_s: float = 30.0) -> None:
        wait_until(lambda: len(self.ended) == len(self.sent), within_s, "an outcome for every task")

    def outcomes(self, *message_ids: str) -> set[tuple[str, str]]:
        """The outcomes, with their codes, of these tasks or of all."""
        return {(end.outcome, end.code) for end in (self.ended[each] for each in message_ids or self.sent)}


def retry(client: Client, service: str, body: bytes = b"again", within_s: float = 20.0) -> float:
    """Ask until it goes well, as a plain client would; gives the instant of the success."""
    deadline = own_time_s() + BUSY * within_s
    error = None
    while own_time_s() < deadline:
        try:
            assert client.request(service, body, timeout=2.0) == body
            return time.monotonic()
        except OutcomeError as outcome:
            error = outcome
            time.sleep(0.01)
    raise AssertionError(f"no success within {BUSY} times {within_s} s; last: {error}")


class Raw:
    """A plain zmq socket that speaks the protocol, or anything else."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], kind: int, address: str) -> None:
        self.socket = context.socket(kind)
        self.socket.linger = 0
        self.socket.connect(address)

    def tell(
        self, request: str, kind: str = "REQUEST", /, *, envelope: bytes = b"", body: bytes = b"", **f: Any
    ) -> None:
        self.send(envelope, json.dumps({"request": request, "type": kind, **f}).encode(), body)

    def send(self, *frames: bytes) -> None:
        self.socket.send_multipart(frames)

    def recv(self, within_s: float = 10.0) -> list[bytes]:
        assert self.socket.poll(int(BUSY * within_s * 1000)), f"nothing came within {BUSY} times {within_s} s"
        return self.socket.recv_multipart()

    def hear(self, within_s: float = 10.0) -> dict[str, Any]:
        """The header of the next message."""
        header: dict[str, Any] = json.loads(self.recv(within_s)[1])
        return header

    def silent(self, for_s: float) -> bool:
        return not self.socket.poll(int(for_s * 1000))

    def become_worker(self, identity: str, *services: str, **fields: Any) -> None:
        """CONNECT, CONFIG, PING, PONG."""
        self.tell("CONNECT", identity=identity, services=list(services), **fields)
        assert self.hear()["request"] == "CONFIG"
        self.tell("PING")
        assert self.hear()["request"] == "PONG"


@pytest.fixture
def raw() -> Iterator[Callable[..., Raw]]:
    """Open plain sockets; they close with the test."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    opened: list[Raw] = []

    def open_one(address: str, kind: int = zmq.DEALER) -> Raw:
        opened.append(Raw(context, kind, address))
        return opened[-1]

    yield open_one
    for each in opened:
        each.socket.close(0)
    context.term()


def alive(pid: int) -> bool:
    """Runs, or is stopped; a zombie does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
