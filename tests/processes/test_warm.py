"""Programs that are forked from a loaded Python are what they would be if they had been started as usual."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.processes import warm
from tests.processes.conftest import BrokerProcess

PROGRAM = """
import atexit, os, signal, sys
if sys.argv[1] == "tell":
    print(sys.argv, os.getcwd(), sys.path[0], os.environ["A"], os.environ.get("HOME"), __name__, sys.stdin.read())
    print("to the other one", file=sys.stderr)
    print(sorted(int(name) for name in os.listdir("/proc/self/fd")), os.getsid(0) == os.getpid())
    atexit.register(print, "at the end")
elif sys.argv[1] == "exit":
    sys.exit(int(sys.argv[2]))
elif sys.argv[1] == "raise":
    raise ValueError("as you wish")
else:
    signal.pause()
"""

Starts = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def is_forked(process: subprocess.Popen[str]) -> bool:
    return isinstance(process, warm.Popen) and process._told is not None


def told(starts: Starts, program: str, cwd: Path) -> tuple[str, str, int]:
    process = starts(
        [sys.executable, program, "tell", "it"],
        cwd=cwd,
        env={"A": "b", **warm.read_at_start(os.environ)},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert is_forked(process) == (starts is warm.Popen)
    out, err = process.communicate("given", 30)
    return out, err, process.returncode


def test_it_has_what_it_was_given_and_nothing_else(program: str, tmp_path: Path) -> None:
    forked = told(warm.Popen, program, tmp_path)
    assert forked == told(subprocess.Popen, program, tmp_path)
    assert forked[0].endswith("at the end\n")


@pytest.mark.parametrize(("words", "code"), [(["exit", "0"], 0), (["exit", "3"], 3), (["raise"], 1)])
def test_its_exit_code(program: str, words: list[str], code: int) -> None:
    done = warm.run([sys.executable, program, *words], capture_output=True, text=True, timeout=30)
    assert done.returncode == code
    assert ("ValueError: as you wish" in done.stderr) == (words == ["raise"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_it(program: str, number: signal.Signals) -> None:
    with warm.Popen([sys.executable, program, "wait"]) as process:
        assert is_forked(process)
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(number)
        assert process.wait(30) == -number
    assert process.poll() == -number


def test_who_wants_another_core_gets_a_python_of_its_own(program: str) -> None:
    other = {"FAMULUS_CORE": "python", "FAMULUS_PUMP": "python"}
    with warm.Popen([sys.executable, program, "exit", "0"], env={**os.environ, **other}) as process:
        assert not is_forked(process)
    with warm.Popen(["true"]) as process:
        assert not is_forked(process)
    assert process.returncode == 0


def test_the_processes_of_a_forked_broker(brokers: Callable[..., BrokerProcess]) -> None:
    flags = ("--http-port", "0", "--http-host", "0.0.0.0", "--plain-on-purpose")
    forked, usual = brokers(*flags), brokers(*flags, ulimit="-c 0")
    for module in ("dispatcher", "router"):
        one, other = (each.children(module)[0] for each in (forked, usual))
        # The command line is that of the Python that it was forked from.
        told = [b"warm_python" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (one, other)]
        assert told == [True, False]
        assert what_it_has(one) == what_it_has(other)
    for each in (forked, usual):
        each.wait_for_line("http_host 0.0.0.0 is not loopback")
        assert each.stop() == 0
        assert each.output.count("is not loopback") == 1, each.output


def what_it_has(pid: int) -> dict[str, object]:
    status = dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    opened = (os.readlink(each).split(":")[0] for each in Path(f"/proc/{pid}/fd").iterdir())
    signals = {name: status[name] for name in ("SigBlk", "SigIgn", "SigCgt")}
    return {
        **signals,
        "opened": sorted(kind for kind in opened if kind != "socket"),
        "threads": status["Threads"],
        "leads its session": os.getsid(pid) == pid,
    }
