"""`famulus call`, as a person or a script uses it; and the examples that know nothing but the protocol."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
import zmq
from tests.processes import warm
from tests.processes.conftest import ROOT, BrokerProcess, Process, wait_until
from tests.processes.ports import free_port

from famulus import Task, Worker
from famulus.wire.headers import LEAVING

NOT_TEXT = bytes(range(256)) * 100


def call(*arguments: str, frontend: str = "", stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "FAMULUS_FRONTEND": frontend}
    command = [sys.executable, "-m", "famulus", "call", *arguments]
    return warm.run(command, input=stdin, capture_output=True, env=environment, timeout=60, check=False)


def test_exit_codes(served: BrokerProcess) -> None:
    frontend = served.frontend

    said = call("once", "hello", frontend=frontend)
    assert (said.returncode, said.stdout, said.stderr) == (0, b"hello", b"")

    said = call("once", "fail", frontend=frontend)
    assert (said.returncode, said.stdout) == (1, b"")
    assert said.stderr.startswith(b"ERROR: ValueError: as you wish (task ")
    assert said.stderr.count(b"\n") == 1

    said = call("nobody", "hello", frontend=frontend)
    assert (said.returncode, said.stdout) == (3, b"")
    assert said.stderr.startswith(b"REJECTED: no_service: ")
    assert said.stderr.count(b"\n") == 1

    said = call("once", "sleep 5", "--timeout", "0.3", frontend=frontend)
    assert (said.returncode, said.stdout) == (4, b"")
    assert said.stderr.startswith(b"UNKNOWN: expired: ")
    assert said.stderr.count(b"\n") == 1


def test_headers_and_a_key_reach_the_function(served: BrokerProcess) -> None:
    worker = Worker(slots=2)

    @worker.service("with-it")
    def with_it(body: bytes, task: Task) -> str:
        return json.dumps([dict(task.headers), task.header["key"]])

    given = ("--header", "language=en", "--header", "sum=1+1=2", "--key", "customer 7")
    with worker.started(served.backend):
        one = call("with-it", "x", *given, frontend=served.frontend)
        two = call("with-it", "x", *given, "--count", "2", "--json", frontend=served.frontend)
    expected = [{"language": "en", "sum": "1+1=2"}, "customer 7"]
    assert json.loads(one.stdout) == expected
    assert [json.loads(json.loads(line)["body"]) for line in two.stdout.splitlines()] == [expected] * 2


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("once", "x", "--timeout", "0"),
        ("once", "x", "--timeout", "soon"),
        ("once", "x", "--priority", "10"),
        ("once", "x", "--count", "0"),
        ("once", "x", "--count", "2", "--message-id", "mine"),
        ("once", "x", "--message-id", ""),
        ("once", "x", "--header", "language"),
        ("once", "x", "--header", "=en"),
        ("once", "x", "--key", "x" * 256),
        ("", "x"),
        ("once", "x", "--broker", "not an address"),
        ("once", "x", "--broker", "tcp://127.0.0.1:123456"),
        ("once", "x", "--no-such-flag"),
    ],
)
def test_wrong_usage_is_2_and_one_line(arguments: tuple[str, ...]) -> None:
    said = call(*arguments, frontend="tcp://127.0.0.1:1")
    assert (said.returncode, said.stdout) == (2, b""), said
    assert said.stderr.startswith(b"famulus: ")
    assert said.stderr.count(b"\n") == 1, said.stderr.decode()


def test_bytes_from_standard_input_to_standard_output(served: BrokerProcess) -> None:
    said = call("once", "-", frontend=served.frontend, stdin=NOT_TEXT)
    assert (said.returncode, said.stdout) == (0, NOT_TEXT)
    said = call("once", "--broker", served.frontend.removeprefix("tcp://"))
    assert (said.returncode, said.stdout) == (0, b"")


def test_json(served: BrokerProcess) -> None:
    said = call("once", "hello", "--json", frontend=served.frontend)
    facts = json.loads(said.stdout)
    assert (facts["outcome"], facts["body"]) == ("OK", "hello")
    assert facts["seconds"] > 0

    said = call("once", "-", "--json", frontend=served.frontend, stdin=b"\xff\x00")
    assert json.loads(said.stdout)["body_base64"] == "/wA="

    said = call("once", "fail", "--json", "--message-id", "mine", frontend=served.frontend)
    assert said.returncode == 1
    assert said.stderr == b""
    facts = json.loads(said.stdout)
    assert (facts["outcome"], facts["reason"], facts["message_id"]) == ("ERROR", "ValueError: as you wish", "mine")


def test_count_gives_all_answers_and_the_worst_code(served: BrokerProcess) -> None:
    said = call("once", "x", "--count", "250", "--window", "20", frontend=served.frontend)
    assert (said.returncode, said.stdout) == (0, b"x" * 250)

    said = call("once", "fail", "--count", "3", "--json", frontend=served.frontend)
    assert said.returncode == 1
    assert [json.loads(line)["outcome"] for line in said.stdout.splitlines()] == ["ERROR"] * 3

    said = call("nobody", "x", "--count", "3", frontend=served.frontend)
    assert said.returncode == 3
    assert said.stderr.count(b"\n") == 3


def test_no_broker_there() -> None:
    """The task was given to nobody, so it is REJECTED, and the user is told where it was tried."""
    began = time.monotonic()
    port = free_port()
    said = call("once", "hello", "--timeout", "1", frontend=f"127.0.0.1:{port}")
    assert time.monotonic() - began < 10
    assert (said.returncode, said.stdout) == (3, b"")
    assert said.stderr.startswith(b"REJECTED: expired: no broker ")
    assert f"127.0.0.1:{port}".encode() in said.stderr
    assert said.stderr.count(b"\n") <= 2


def test_interrupted(served: BrokerProcess, processes: Callable[..., Process]) -> None:
    command = [sys.executable, "-m", "famulus", "call", "once", "sleep 5", "--broker", served.frontend]
    waiting = processes(*command)
    # It has its client when it has the connection to the broker.
    port = int(served.frontend.rpartition(":")[2])
    wait_until(lambda: _connections_to(port), 20, "it is connected")
    waiting.signal(signal.SIGINT)
    assert waiting.wait(10) == 130
    assert "Traceback" not in waiting.output


def test_no_colours_in_a_pipe_and_a_line_end_on_a_terminal(served: BrokerProcess) -> None:
    for arguments in (("once", "hello"), ("nobody", "x"), ("once", "x", "--timeout", "0"), ("--help",)):
        said = call(*arguments, frontend=served.frontend)
        assert b"\x1b" not in said.stdout + said.stderr

    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "famulus", "call", "once", "hello", "--broker", served.frontend]
    try:
        warm.run(command, stdout=follower, timeout=60, check=True)
        assert os.read(leader, 100) == b"hello\r\n"
    finally:
        os.close(follower)
        os.close(leader)


def test_the_plain_examples_speak_the_protocol(broker: BrokerProcess, processes: Callable[..., Process]) -> None:
    worker = processes(sys.executable, str(ROOT / "examples" / "plain_worker.py"), broker.backend)
    worker.wait_for_line("^ready$")
    client = str(ROOT / "examples" / "plain_client.py")
    for _ in range(2):
        said = subprocess.run(
            [sys.executable, client, broker.frontend, "reverse", "hello"], capture_output=True, timeout=30, check=False
        )
        assert (said.returncode, said.stdout, said.stderr) == (0, b"olleh\n", b"")
    said = subprocess.run(
        [sys.executable, client, broker.frontend, "nobody", "hello"], capture_output=True, timeout=30, check=False
    )
    assert said.returncode == 1
    assert said.stderr.startswith(b"REJECTED: no_service")

    # It survives a new dispatcher, which answers its next PING with "connect again".
    os.kill(broker.dispatcher, signal.SIGKILL)
    wait_until(lambda: worker.lines.count("ready") >= 3, 20, "ready again")
    said = subprocess.run(
        [sys.executable, client, broker.frontend, "reverse", "again"], capture_output=True, timeout=30, check=False
    )
    assert said.stdout == b"niaga\n"


def test_the_plain_client_says_that_its_broker_stopped_before_it_took_the_task() -> None:
    command = [sys.executable, str(ROOT / "examples" / "plain_client.py")]
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        frontend = f"tcp://127.0.0.1:{router.bind_to_random_port('tcp://127.0.0.1')}"
        with subprocess.Popen([*command, frontend, "reverse", "hello"], stderr=subprocess.PIPE) as client:
            assert router.poll(30_000)
            peer, *_ = router.recv_multipart()
            router.send_multipart([peer, b"", LEAVING, b""])
            _, said = client.communicate(timeout=30)
    assert client.returncode == 1
    assert said == b"REJECTED: the broker stopped before it took the task\n"


def _connections_to(port: int) -> int:
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)
