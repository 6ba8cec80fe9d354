"""`famulus fuzz`: says how far it is, and how to see a failure again, whatever becomes of the process that tries."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

from famulus.cli import main
from famulus.lab.commands import fuzz


def run(*args: str) -> Result:
    return CliRunner().invoke(main.new_app(), ["fuzz", *args])


def instead(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Another process that tells what this script does."""
    started = [sys.executable, "-uc", f"import os, signal, time\n{script}"]
    monkeypatch.setattr(fuzz, "_start", lambda *_: subprocess.Popen(started, stdout=subprocess.PIPE))


def test_all_went_well() -> None:
    result = run("--inputs", "300", "--seed", "3")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("seed 3, 300 inputs from 0\n300 inputs in ")
    assert sum(int(count.replace(",", "")) for count in re.findall(r"^ +([\d,]+)  ", result.stdout, re.M)) == 300
    assert result.stdout.endswith("nothing that was changed was accepted\n")


def test_without_a_seed_there_is_another_one_each_time() -> None:
    first, second = (run("--inputs", "1").stdout.splitlines()[0] for _ in range(2))
    assert first != second


def test_it_stops_when_the_time_is_over() -> None:
    result = run("--seconds", "1.5", "--seed", "3")
    assert result.exit_code == 0, result.output
    done = re.search(r"^([\d,]+) inputs in", result.stdout, re.M)
    assert done is not None
    assert 0 < int(done[1].replace(",", "")) < 1_000_000


def test_a_failure_says_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, """print('{"done":7}\\n{"done":41,"kinds":{"some":41},"failure":"it was accepted"}')""")
    result = run("--seed", "3", "--first", "100")
    assert result.exit_code == 1
    assert "seed 3, input 141: it was accepted\n" in result.stdout
    assert result.stdout.endswith("    again: famulus fuzz --seed 3 --first 141 --inputs 1\n")


def test_a_crash_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, """print('{"done":7}'); os.kill(os.getpid(), signal.SIGSEGV)""")
    result = run("--seed", "3", "--inputs", "1000")
    assert result.exit_code == 1
    assert "seed 3, input 7: the process ended with SIGSEGV: one of the next inputs crashes it\n" in result.stdout
    assert result.stdout.endswith("    again: famulus fuzz --seed 3 --first 7 --inputs 993\n")


def test_a_hang_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, """print('{"done":7}'); time.sleep(300)""")
    monkeypatch.setattr(fuzz, "SILENCE_S", 2.0)
    result = run("--seed", "3")
    assert result.exit_code == 1
    assert "seed 3, input 7: nothing was heard for 2 s: one of the next inputs hangs\n" in result.stdout


def test_ctrl_c_says_what_was_done(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines, started = fuzz._lines, []

    def interrupt(process: subprocess.Popen[bytes]) -> Iterator[fuzz.FuzzReport]:
        started.append(process)
        yield next(lines(process))
        raise KeyboardInterrupt

    monkeypatch.setattr(fuzz, "_lines", interrupt)
    monkeypatch.setattr("sys.argv", ["famulus", "fuzz", "--seed", "3"])
    with pytest.raises(SystemExit) as ended:
        main.run()
    assert ended.value.code == 130
    assert started[0].returncode is not None
    said = capsys.readouterr()
    assert "stopped: 0 inputs in" in said.out
    assert "Traceback" not in said.err
