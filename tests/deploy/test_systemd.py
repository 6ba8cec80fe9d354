"""The units for systemd: what they run exists, they are stopped as a supervisor wants to be, and systemd takes them."""

from __future__ import annotations

import inspect
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from tests.deploy.command_lines import parse

from famulus import Worker
from famulus.broker.settings import Settings
from famulus.broker.supervisor import SCRIBE_STOP_S
from famulus.core.clock import NS_PER_S
from famulus.core.hangs import HANG_NS, LINGER_NS

FOLDER = Path(__file__).parents[2] / "deploy" / "systemd"
BROKER = FOLDER / "famulus-broker.service"
WORKER = FOLDER / "famulus-worker@.service"
UNITS = [BROKER, WORKER]

#: A key may be there several times, which configparser does not have.
Section = dict[str, list[str]]


def sections(unit: Path) -> dict[str, Section]:
    found: dict[str, Section] = {}
    section: Section = {}
    for number, line in enumerate(unit.read_text("utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            section = found[heading[1]] = {}
            continue
        key, equals, value = line.partition("=")
        assert equals, f"{unit.name}, line {number}: {line}"
        section.setdefault(key, []).append(value)
    return found


def service(unit: Path) -> dict[str, str]:
    """The last word counts."""
    return {key: values[-1] for key, values in sections(unit)["Service"].items()}


def command(unit: Path, instance: str = "shop") -> list[str]:
    words = shlex.split(service(unit)["ExecStart"].replace("%i", instance))
    return [word for word in words if not word.startswith("$")]


def options_in_comments(unit: Path) -> list[list[str]]:
    """What the comments say that may be put into the environment."""
    return [shlex.split(each) for each in re.findall(r"^# +\w+_OPTIONS=(.+)$", unit.read_text("utf-8"), re.MULTILINE)]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_what_it_runs_is_a_command_of_famulus(unit: Path) -> None:
    name, parameters = parse(command(unit))
    assert name == f"famulus {unit.name.removeprefix('famulus-').partition('.')[0].rstrip('@')}"
    assert not parameters.get("check")
    (options,) = options_in_comments(unit)
    assert parse([*command(unit), *options])[0] == name


def test_a_renamed_option_would_be_noticed() -> None:
    with pytest.raises(typer.TyperException, match="No such option"):
        parse([*command(BROKER), "--no-such-thing"])


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_it_is_stopped_by_one_word_to_one_process_and_has_no_privileges(unit: Path) -> None:
    found = service(unit)
    assert (found["KillMode"], found["KillSignal"]) == ("mixed", "SIGTERM")
    assert found["Restart"] == "on-failure"
    assert found["LimitNOFILE"] == "65536"
    assert found["NoNewPrivileges"] == found["PrivateTmp"] == "yes"
    assert found["ProtectSystem"] == "strict"
    assert found["User"] not in ("root", "0")
    users = re.findall(r"^u (\S+) - ", (FOLDER / "famulus.sysusers").read_text("utf-8"), re.MULTILINE)
    assert found["User"] in users


def test_a_worker_has_a_pass_that_nobody_else_reads() -> None:
    found = sections(WORKER)["Service"]
    assert found["Environment"] == [f"FAMULUS_PASS=/var/lib/{found['StateDirectory'][0]}/%i.pass"]
    assert found["StateDirectoryMode"] == ["0700"]


def test_a_broker_has_time_to_drain() -> None:
    drain_s = Settings().drain_ms / 1000
    assert float(service(BROKER)["TimeoutStopSec"]) > drain_s + (LINGER_NS + HANG_NS) / NS_PER_S + SCRIBE_STOP_S


def test_a_worker_has_time_to_drain() -> None:
    drain_s = inspect.signature(Worker).parameters["drain_s"].default
    assert float(service(WORKER)["TimeoutStopSec"]) > drain_s


def test_a_broker_stops_before_the_workers_that_its_open_tasks_need() -> None:
    assert sections(WORKER)["Unit"]["Before"] == [BROKER.name]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_takes_them(tmp_path: Path) -> None:
    """With a program that exists here, in a folder of our own: units of this machine are not ours to judge."""
    copies = []
    for unit in UNITS:
        text = unit.read_text("utf-8").replace("/opt/famulus/.venv/bin/famulus", sys.executable)
        copies.append(tmp_path / unit.name.replace("@", "@shop"))
        copies[-1].write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *map(str, copies)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if "famulus" in line]
    assert complaints == []
    assert done.returncode == 0, done.stderr
