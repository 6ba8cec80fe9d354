"""The supervisor keeps its processes alive, gives up when that is in vain, and leaves nobody behind."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.processes.conftest import BrokerProcess, alive, wait_until


@pytest.mark.parametrize("victims", ["router", "dispatcher"])
def test_a_process_that_dies_again_and_again_ends_the_broker(
    brokers: Callable[..., BrokerProcess], victims: str
) -> None:
    seen: set[int] = set()
    broker = brokers("--routers", "2")
    folder = _ipc_folder(broker.dispatcher)
    assert folder.is_dir()
    deadline = time.monotonic() + 100
    while broker.running:
        assert time.monotonic() < deadline, broker.output
        seen.update(broker.children("dispatcher"), broker.children("router"))
        for pid in broker.children(victims)[:1]:
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda pid=pid: not alive(pid), 5, "its end")  # type: ignore[misc]
    assert broker.wait() == 1
    complaints = [line for line in broker.lines if line.startswith("famulus: ")]
    assert len(complaints) == 1, broker.output
    assert f"the {victims}" in complaints[0]
    assert "died again and again (last: signal SIGKILL); giving up" in complaints[0]
    assert broker.lines[-1] == complaints[0]
    assert "Traceback" not in broker.output
    wait_until(lambda: not [pid for pid in seen if alive(pid)], 5, "no orphans")
    assert not folder.exists()


def test_deaths_that_are_far_apart_do_not_end_it(broker: BrokerProcess) -> None:
    """Five deaths of one process and some of another are not yet a storm."""
    for count in range(1, 4):
        for module in ("router", "dispatcher"):
            wait_until(lambda module=module: broker.children(module), 20, "its restart")  # type: ignore[misc]
            pid = broker.children(module)[0]
            os.kill(pid, signal.SIGKILL)
            name = r"router-\d" if module == "router" else module
            wait_until(lambda name=name, count=count: _deaths(broker, name) >= count, 20, "a word")  # type: ignore[misc]
    assert broker.running


def test_kill_of_the_supervisor_leaves_no_child_behind(broker: BrokerProcess) -> None:
    children = [broker.dispatcher, *broker.routers]
    broker.signal(signal.SIGKILL)
    assert broker.wait() == -signal.SIGKILL
    wait_until(lambda: not [pid for pid in children if alive(pid)], 5, "the end of all children")


def test_the_folder_of_a_killed_broker_is_removed_by_the_next_one(brokers: Callable[..., BrokerProcess]) -> None:
    dead, living = brokers(), brokers()
    folder, other = _ipc_folder(dead.dispatcher), _ipc_folder(living.dispatcher)
    # Nobody is left who could clean up.
    for pid in (dead.dispatcher, *dead.routers):
        os.kill(pid, signal.SIGSTOP)
    dead.perish()
    assert dead.wait() == -signal.SIGKILL
    assert folder.exists()
    brokers()
    assert not folder.exists()
    assert (other / "task").exists(), "who lives keeps his"
    assert living.stop() == 0
    assert not other.exists()


def test_the_folder_of_a_killed_supervisor_is_removed_by_its_children(broker: BrokerProcess) -> None:
    folder = _ipc_folder(broker.dispatcher)
    broker.signal(signal.SIGKILL)
    wait_until(lambda: not folder.exists(), 10, "the end of its folder")


def test_stop_and_continue_of_the_supervisor(broker: BrokerProcess) -> None:
    """Its processes live on without it, and it does not take its own absence for theirs."""
    children = {broker.dispatcher, *broker.routers}
    broker.signal(signal.SIGSTOP)
    time.sleep(6.0)  # longer than what it would call a hang
    broker.signal(signal.SIGCONT)
    assert broker.stop() == 0
    assert "killing it" not in broker.output
    assert "died" not in broker.output
    wait_until(lambda: not [pid for pid in children if alive(pid)], 5, "no orphans")


def test_ports_stay_the_same_after_a_restart(brokers: Callable[..., BrokerProcess]) -> None:
    broker = brokers()
    os.kill(broker.dispatcher, signal.SIGKILL)
    broker.wait_for_line("the dispatcher died")
    ports = {int(address.rpartition(":")[2]) for address in (broker.frontend, broker.backend)}
    wait_until(lambda: ports <= _listening(), 10, "the same ports")


def _deaths(broker: BrokerProcess, name: str) -> int:
    return len(re.findall(rf"the {name} died", broker.output))


def _ipc_folder(pid: int) -> Path:
    """Where its inner sockets are bound."""
    links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
    paths = [row[7] for row in rows if len(row) > 7 and f"socket:[{row[6]}]" in links]
    (folder,) = {Path(path).parent for path in paths if "famulus-" in path}
    return folder


def _listening() -> set[int]:
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].partition(":")[2], 16) for row in rows if row[3] == "0A"}
