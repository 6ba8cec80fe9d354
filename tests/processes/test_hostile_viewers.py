"""What strangers can do to the HTTP port, and what they cannot: keep others out, fill the log, fill the memory."""

from __future__ import annotations

import resource
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.processes.conftest import BrokerProcess, alive, descendants, wait_until
from tests.processes.test_herald import address_of, ask, herald_of
from tests.unit.tables.bombs import write_bomb

MIB = 1024 * 1024


@pytest.fixture
def shown(brokers: Callable[..., BrokerProcess]) -> BrokerProcess:
    return brokers("--http-port", "0", "--routers", "1")


@pytest.fixture
def crowd() -> Iterator[Callable[..., list[socket.socket]]]:
    """Connections that say no more than they are told to, and stay."""
    with ExitStack() as stack:

        def connect(address: str, count: int, said: bytes = b"") -> list[socket.socket]:
            place = urlsplit(address)
            made = []
            for _ in range(count):
                stranger = stack.enter_context(socket.create_connection((place.hostname, place.port), 10))
                stranger.sendall(said)
                made.append(stranger)
            return made

        yield connect


@pytest.mark.parametrize("said", [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\n"], ids=["silent", "half a request"])
def test_connections_that_ask_nothing_keep_nobody_out(
    shown: BrokerProcess, crowd: Callable[..., list[socket.socket]], said: bytes
) -> None:
    address = address_of(shown)
    wait_until(lambda: ask(address, "/healthz")[0] == 200, 20, "the port")
    strangers = crowd(address, 300, said)
    assert [ask(address, "/healthz")[0] for _ in range(5)] == [200] * 5
    for stranger in strangers[:50]:
        stranger.settimeout(20)
        with suppress(ConnectionResetError):
            assert stranger.recv(1) == b"", "who asks nothing is sent away"


def test_a_herald_without_descriptors_says_so_once_and_recovers(
    shown: BrokerProcess, crowd: Callable[..., list[socket.socket]]
) -> None:
    address = address_of(shown)
    # Its own connections come first: libzmq ends a process that has no descriptor for one, and it is started again.
    wait_until(lambda: ask(address, "/readyz")[0] == 200, 20, "ready")
    wait_until(lambda: ask(address, "/api/v1/status")[1].get("processes"), 20, "the supervisor's own word")
    herald = herald_of(shown)
    before = resource.prlimit(herald, resource.RLIMIT_NOFILE)
    resource.prlimit(herald, resource.RLIMIT_NOFILE, (len(list(Path(f"/proc/{herald}/fd").iterdir())) + 2, before[1]))
    crowd(address, 20)
    shown.wait_for_line("the HTTP port: .*(out of system resource|Too many open files)")
    time.sleep(2.5)  # in which it tries again, twice; what is tested is what it says of that
    resource.prlimit(herald, resource.RLIMIT_NOFILE, before)
    wait_until(lambda: ask(address, "/healthz")[0] == 200, 20, "the port again")
    said = [line for line in shown.lines if "the HTTP port" in line]
    assert len(said) <= 2
    assert "Traceback" not in shown.output


def test_a_parquet_file_that_unpacks_to_far_more_does_not_unpack_in_the_herald(
    brokers: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    write_bomb(tmp_path / "tables")
    journal = str(tmp_path / "journal")
    broker = brokers("--http-port", "0", "--routers", "1", "--journal-folder", journal)
    address = address_of(broker)
    wait_until(lambda: ask(address, "/healthz")[0] == 200, 20, "the port")
    herald = herald_of(broker)

    def told() -> str:
        return str(ask(address, "/api/v1/findings")[1])

    wait_until(lambda: "cannot be read" in told() or "too much memory" in told(), 60, "a word on the file")
    assert alive(herald)
    assert _most_memory(herald) < 200 * MIB


def test_a_journal_is_for_nobody_else(brokers: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    folder = tmp_path / "of" / "its" / "own"
    broker = brokers("--routers", "1", "--journal-folder", str(folder))
    wait_until(lambda: broker.children("scribe"), 20, "a scribe")
    wait_until(folder.exists, 20, "the folder")
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("delay_s", [0.0, 0.1, 0.25, 0.5])
def test_a_supervisor_that_is_killed_while_its_children_start_leaves_no_traceback(
    brokers: Callable[..., BrokerProcess], tmp_path: Path, delay_s: float
) -> None:
    broker = brokers("--http-port", "0", "--journal-folder", str(tmp_path / "journal"), wait=False)
    wait_until(lambda: descendants(broker.pid), 20, "the first child")
    time.sleep(delay_s)  # the moment is what is tested
    children = descendants(broker.pid)
    broker.signal(signal.SIGKILL)
    broker.wait(30)  # and all who could still write into its output
    wait_until(lambda: not any(alive(pid) for pid in children), 20, "the end of all children")
    assert "Traceback" not in broker.output


def _most_memory(pid: int) -> int:
    """In bytes, at any time of its life."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"{pid} has no memory")
