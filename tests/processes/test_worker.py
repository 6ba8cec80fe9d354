"""`famulus worker` and `Worker` against a real broker: start, serve, drain, and each way in which that goes wrong."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.processes.conftest import BrokerProcess, Process, descendants, wait_until
from tests.processes.ports import free_port

from famulus import Client, OutcomeError, TaskError, Worker

MODULE = """
import asyncio, os, sys, time
from famulus import Task, Worker

worker = Worker(slots=4, connect_timeout_s=float(os.environ.get("CONNECT_TIMEOUT_S", "10")))
spare = Worker(identity="spare", connect_timeout_s=0.2)

@worker.service("echo")
def echo(body):
    return body

@worker.service("sleep")
def sleep(body):
    print("sleeps", flush=True)
    time.sleep(float(body))
    return "slept"

@worker.service("busy")
def busy(body):
    until = time.monotonic() + float(body)
    while time.monotonic() < until:
        pass
    return "done"

@worker.service("fail")
def fail(body, task: Task):
    raise ValueError(f"attempt {task.attempt} of {task.message_id}")

@worker.service("exit")
def leave(body):
    sys.exit(3)

@worker.service("vanish")
def vanish(body):
    os._exit(3)

@worker.service("pid")
def pid(body):
    return str(os.getpid())

@spare.service("later")
async def later(body):
    await asyncio.sleep(0.01)
    return body
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("import not_there_either\n")
    (tmp_path / "empty.py").write_text("worker = 5\n")
    return tmp_path


StartWorker = Callable[..., Process]


@pytest.fixture
def start_worker(processes: Callable[..., Process], folder: Path) -> StartWorker:
    """`famulus worker` in the folder of the module."""

    def start(*arguments: str, env: dict[str, str] | None = None) -> Process:
        return processes(sys.executable, "-m", "famulus", "worker", *arguments, cwd=folder, env=env)

    return start


@contextmanager
def running(worker: Worker) -> Iterator[threading.Thread]:
    """A worker that serves in a thread of this process."""
    ready = threading.Thread(target=worker.run)
    ready.start()
    try:
        yield ready
    finally:
        worker.stop()
        ready.join(20)
        assert not ready.is_alive()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# -- serving ------------------------------------------------------------------------------------------------------


def test_a_module_becomes_a_worker_that_survives_its_functions(
    broker: BrokerProcess, start_worker: StartWorker
) -> None:
    worker = start_worker("shop", "--broker", broker.backend, "--identity", "w1", "--slots", "2")
    line = worker.wait_for_line("is ready")
    assert "worker w1 is ready: echo, sleep, busy, fail, exit, vanish, pid at tcp://" in line.string
    assert "(2 slots)" in line.string
    assert "\033" not in line.string
    with Client(broker.frontend) as client:
        assert client.request("echo", b"hello") == b"hello"
        with pytest.raises(TaskError, match=r"^ValueError: attempt 1 of id-7 \("):
            client.request("fail", b"", message_id="id-7")
        with pytest.raises(TaskError, match=r"^SystemExit: 3 \("):
            client.request("exit", b"")
        assert client.request("echo", b"again") == b"again"
        assert list(client.map("echo", (b"%d" % n for n in range(2000)), window=500)) == [
            b"%d" % n for n in range(2000)
        ]
    worker.wait_for_line("Traceback")
    worker.wait_for_line("in fail")


TALKATIVE = """
import logging
from famulus import Worker

%s
worker = Worker(processes=%d)
log = logging.getLogger("shop.orders")
log.info("the shop opens")

@worker.service("order")
def order(body):
    log.info("an order for %%s", body.decode())
    log.debug("and all about it")
    return body
"""


@pytest.mark.parametrize("processes", [0, 1])
@pytest.mark.parametrize(
    ("setting_up", "line"),
    [
        ("", r"INFO    shop\.orders \[order chairs-1\]: an order for chairs"),
        ("logging.basicConfig(level=logging.DEBUG, format='SHOP %(message)s')", "(?m)^SHOP an order for chairs"),
        (
            "logging.getLogger().addHandler(logging.NullHandler())",
            r"shop\.orders \[order chairs-1\]: an order for chairs",
        ),
    ],
)
def test_what_a_module_logs_is_seen_as_it_wants_it(
    broker: BrokerProcess,
    processes: int,
    setting_up: str,
    line: str,
    tmp_path: Path,
) -> None:
    (tmp_path / "shop.py").write_text(TALKATIVE % (setting_up, processes))
    worker = Process(sys.executable, "-m", "famulus", "worker", "shop", "--broker", broker.backend, cwd=tmp_path)
    try:
        worker.wait_for_line("is ready")
        with Client(broker.frontend) as client:
            client.request("order", b"chairs", message_id="chairs-1")
        worker.wait_for_line(line)
        assert ("the shop opens" in worker.output) is ("Null" not in setting_up), "as a module is imported, it decides"
        if "DEBUG" in setting_up:
            worker.wait_for_line("and all about it")
        else:
            assert "and all about it" not in worker.output, "at the level of whoever set them up"
        assert worker.output.count("is ready") == 1, "nothing is told twice"
    finally:
        worker.close()


LOGGING = """
import asyncio, logging
from famulus import Worker

worker = Worker(slots=4)
log = logging.getLogger("shop")

@worker.service("plain")
def plain(body):
    log.info("plain")

@worker.service("coroutine")
async def coroutine(body):
    await asyncio.gather(asyncio.to_thread(log.info, "within"), asyncio.sleep(0))

@worker.service("fail")
def fail(a: int) -> None:
    try:
        1 / 0
    except ZeroDivisionError:
        log.exception("failed")
"""


def test_logs_as_json_say_for_which_task(
    broker: BrokerProcess, processes: Callable[..., Process], tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(LOGGING)
    command = ("worker", "shop", "--broker", broker.backend, "--log-json")
    worker = processes(sys.executable, "-m", "famulus", *command, cwd=tmp_path)
    worker.wait_for_line("is ready")
    with Client(broker.frontend) as client:
        for _ in range(50):  # it becomes a quick one, which the I/O thread calls
            client.request("plain")
        for service in ("plain", "coroutine"):
            client.request(service, message_id=f"{service}-1")
        client.call("fail", a=1, message_id="fail-1")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    records = [json.loads(line) for line in worker.lines]
    assert {tuple(record)[:4] for record in records} == {("time", "level", "logger", "message")}
    told = {record.get("message_id"): record for record in records}
    assert (told["plain-1"]["service"], told["plain-1"]["message"]) == ("plain", "plain")
    assert (told["coroutine-1"]["service"], told["coroutine-1"]["message"]) == ("coroutine", "within")
    assert told["fail-1"]["level"] == "error"
    assert "ZeroDivisionError" in told["fail-1"]["exception"]
    own = [record for record in records if record["logger"] == "famulus.worker"]
    assert own
    assert not any("message_id" in record for record in own), "those are about no task"


def test_a_worker_starts_again_when_its_module_changes(
    broker: BrokerProcess, processes: Callable[..., Process], tmp_path: Path
) -> None:
    module = tmp_path / "shop.py"

    def write(answer: str) -> None:
        module.write_text(
            f"from famulus import Worker\nworker = Worker()\nworker.service('say')(lambda body: {answer})\n"
        )

    write("b'one'")
    command = ("worker", "shop", "--broker", broker.backend, "--reload")
    worker = processes(sys.executable, "-m", "famulus", *command, cwd=tmp_path)
    worker.wait_for_line("is ready")
    with Client(broker.frontend) as client:
        assert client.request("say") == b"one"
        write("b'two' b")
        worker.wait_for_line("SyntaxError")
        worker.wait_for_line("the worker ended .code 1.; it starts again when its module changes")
        write("b'three'")
        wait_until(lambda: worker.output.count("is ready") == 2, 30, "its new start")
        assert client.request("say") == b"three"
    children = descendants(worker.pid)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert not any(alive(pid) for pid in children)


def test_a_stop_while_the_old_module_drains_is_the_end(
    broker: BrokerProcess, processes: Callable[..., Process], tmp_path: Path
) -> None:
    module, gate = tmp_path / "shop.py", tmp_path / "open"
    module.write_text(
        "import os, time\nfrom famulus import Worker\nworker = Worker()\n"
        "@worker.service('wait')\ndef wait(body: bytes) -> bytes:\n"
        f"    while not os.path.exists({str(gate)!r}):\n        time.sleep(0.01)\n    return body\n"
    )
    command = ("worker", "shop", "--broker", broker.backend, "--reload")
    worker = processes(sys.executable, "-m", "famulus", *command, cwd=tmp_path)
    worker.wait_for_line("is ready")
    with Client(broker.frontend) as client:
        task = client.submit("wait", b"done")
        module.write_text(module.read_text() + "# changed\n")
        worker.wait_for_line("drains: 1 task running")
        worker.signal(signal.SIGTERM)
        gate.touch()
        assert task.result() == b"done"
    assert worker.wait(20) == 0
    assert worker.output.count("is ready") == 1


def test_sync_and_async_services_and_several_workers_in_one_process(broker: BrokerProcess) -> None:
    first, second = Worker(broker.backend, slots=10), Worker(broker.backend, slots=10)
    where: list[str] = []

    @first.service("both")
    def in_first(body: bytes) -> bytes:
        where.append("first")
        time.sleep(0.01)
        return body

    @second.service("both")
    async def in_second(body: bytes) -> bytes:
        where.append("second")
        return body

    @second.service("own")
    def own(body: bytes) -> str:
        return "own"

    with running(first), running(second), Client(broker.frontend) as client:
        wait_until(lambda: _served(client, "own"))
        wait_until(lambda: _served(client, "both"))
        wait_until(lambda: list(client.map("both", [b"x"] * 50)) == [b"x"] * 50 and len(set(where)) == 2)


def _served(client: Client, service: str) -> bool:
    try:
        client.request(service, b"", timeout=1.0)
    except OutcomeError:
        return False
    return True


def test_a_busy_function_keeps_no_heartbeat_waiting(broker: BrokerProcess, start_worker: StartWorker) -> None:
    """Three seconds of plain Python are twice as long as the silence after which this broker gives a worker up."""
    worker = start_worker("shop", "--broker", broker.backend, "--slots", "1")
    worker.wait_for_line("is ready")
    with Client(broker.frontend) as client:
        assert client.request("busy", b"3") == b"done"
    assert "lost" not in worker.output


# -- the end ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_running_tasks_finish(
    broker: BrokerProcess, start_worker: StartWorker, number: signal.Signals
) -> None:
    worker = start_worker("shop", "--broker", broker.backend)
    worker.wait_for_line("is ready")
    with Client(broker.frontend) as client:
        slept = client.submit("sleep", b"1.0")
        worker.wait_for_line("sleeps")
        worker.signal(number)
        assert slept.result(20) == b"slept"
    assert worker.wait() == 0


def test_a_second_signal_stops_at_once(broker: BrokerProcess, start_worker: StartWorker) -> None:
    worker = start_worker("shop", "--broker", broker.backend)
    worker.wait_for_line("is ready")
    with Client(broker.frontend) as client:
        lost = client.submit("sleep", b"60")
        worker.wait_for_line("sleeps")
        worker.signal(signal.SIGTERM)
        worker.wait_for_line("drains: 1 task")
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 1
        with pytest.raises(OutcomeError, match="worker_lost"):
            lost.result(20)
    assert "1 task is given up" in worker.output


def test_tasks_that_take_too_long_are_given_up(broker: BrokerProcess, start_worker: StartWorker) -> None:
    worker = start_worker("shop", "--broker", broker.backend, "--drain-s", "0.2")
    worker.wait_for_line("is ready")
    with Client(broker.frontend) as client:
        client.submit("sleep", b"60")
        worker.wait_for_line("sleeps")
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 1


# -- the start ----------------------------------------------------------------------------------------------------


def test_without_a_broker_the_command_says_so_and_ends(start_worker: StartWorker) -> None:
    worker = start_worker("shop", "--broker", f"127.0.0.1:{free_port()}", env={"CONNECT_TIMEOUT_S": "0.3"})
    assert worker.wait() == 7
    (line,) = worker.lines
    assert line.startswith("famulus: no broker answers at tcp://127.0.0.1:")
    assert "--wait" in line


def test_with_wait_it_waits_for_the_broker(brokers: Callable[..., BrokerProcess], start_worker: StartWorker) -> None:
    port = free_port()
    worker = start_worker("shop", "--wait", env={"CONNECT_TIMEOUT_S": "0.2", "FAMULUS_BACKEND": f"127.0.0.1:{port}"})
    worker.wait_for_line("waiting for it")
    broker = brokers("--frontend-port", "0", "--backend-port", str(port))
    worker.wait_for_line("is ready")
    with Client(broker.frontend) as client:
        assert client.request("echo", b"late but here") == b"late but here"
    assert worker.output.count("waiting for it") == 1


def test_a_signal_ends_the_waiting(start_worker: StartWorker) -> None:
    worker = start_worker("shop", "--wait", "--broker", f"127.0.0.1:{free_port()}", env={"CONNECT_TIMEOUT_S": "0.2"})
    worker.wait_for_line("waiting for it")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["not_there"], "there is no module 'not_there' in "),
        (["not_there.deeper:worker"], "there is no module 'not_there' in "),
        (["broken"], "broken cannot be imported: No module named 'not_there_either'"),
        (["empty"], "the module empty has a int, not a Worker, as 'worker'"),
        (["shop:nobody"], "the module shop has no 'nobody'; it has worker, spare"),
        (["shop.py"], "name a module as Python imports it"),
        ([""], "is not MODULE[:NAME]"),
        (["shop", "--slots", "0"], "slots: a number from 1"),
        (["shop", "--broker", "nonsense"], "is not a broker's address"),
        (["shop:spare", "--processes", "2"], "processes: 'later' is an async function"),
        (["shop", "--log-level", "loud"], "log-level: 'loud'"),
        ([], "MODULE"),
    ],
)
def test_wrong_usage_is_one_clear_line(start_worker: StartWorker, arguments: list[str], sentence: str) -> None:
    worker = start_worker(*arguments)
    assert worker.wait() == 2
    (line,) = worker.lines
    assert sentence in line


# -- losing the broker --------------------------------------------------------------------------------------------


def test_a_killed_broker_process_is_found_again(broker: BrokerProcess, start_worker: StartWorker) -> None:
    worker = start_worker("shop", "--broker", broker.backend)
    worker.wait_for_line("is ready")
    os.kill(broker.dispatcher, signal.SIGKILL)
    worker.wait_for_line("is ready again")
    with Client(broker.frontend) as client:
        wait_until(lambda: _served(client, "echo"))
    assert worker.output.count("lost the broker") == 1


def test_a_broker_that_is_silent_for_a_while_is_found_again(broker: BrokerProcess, start_worker: StartWorker) -> None:
    worker = start_worker("shop", "--broker", broker.backend)
    worker.wait_for_line("is ready")
    with broker.asleep():
        worker.wait_for_line("lost the broker")
    worker.wait_for_line("is ready again")
    with Client(broker.frontend) as client:
        wait_until(lambda: _served(client, "echo"))


# -- child processes ----------------------------------------------------------------------------------------------


def test_functions_in_processes(broker: BrokerProcess, start_worker: StartWorker) -> None:
    worker = start_worker("shop", "--broker", broker.backend, "--processes", "2", "--slots", "8")
    worker.wait_for_line("is ready")
    with Client(broker.frontend) as client:
        pids = {int(answer) for answer in client.map("pid", [b""] * 100)}
        assert worker.pid not in pids
        assert pids <= set(descendants(worker.pid))
        big = os.urandom(8 * 1024 * 1024)
        assert client.request("echo", big) == big
        with pytest.raises(TaskError, match=r"^ProcessDied: the process that ran it died .exit code 3. "):
            client.request("vanish", b"")
        assert client.request("echo", b"replaced") == b"replaced"
        slept = client.submit("sleep", b"0.5")
        worker.wait_for_line("sleeps")
        worker.signal(signal.SIGTERM)
        assert slept.result(20) == b"slept"
    assert worker.wait() == 0
    assert not any(alive(pid) for pid in pids)


def test_ctrl_c_in_a_terminal_reaches_all_and_still_drains(broker: BrokerProcess, start_worker: StartWorker) -> None:
    worker = start_worker("shop", "--broker", broker.backend, "--processes", "2")
    worker.wait_for_line("is ready")
    with Client(broker.frontend) as client:
        slept = client.submit("sleep", b"0.5")
        worker.wait_for_line("sleeps")
        for pid in (worker.pid, *descendants(worker.pid)):
            os.kill(pid, signal.SIGINT)
        assert slept.result(20) == b"slept"
    assert worker.wait() == 0


def test_killing_a_worker_leaves_no_process(broker: BrokerProcess, start_worker: StartWorker) -> None:
    worker = start_worker("shop", "--broker", broker.backend, "--processes", "3")
    worker.wait_for_line("is ready")
    with Client(broker.frontend) as client:
        client.submit("sleep", b"60")
        worker.wait_for_line("sleeps")
        pids = descendants(worker.pid)
        assert len(pids) == 4
        worker.signal(signal.SIGKILL)
        wait_until(lambda: not any(alive(pid) for pid in pids))
