"""The image: what it copies is there, it runs as nobody in particular, and what it starts is a command of ours."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.deploy.command_lines import parse

from famulus.cli.packages import BROKER

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "deploy/container/Containerfile").read_text("utf-8")


def instructions() -> list[tuple[str, str]]:
    lines = [line for line in TEXT.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def of(word: str) -> list[str]:
    return [rest for each, rest in instructions() if each == word]


def last_stage() -> dict[str, str]:
    """Its instructions; of those that are there twice, the last."""
    every = instructions()
    begin = max(number for number, (word, _) in enumerate(every) if word == "FROM")
    return dict(every[begin:])


def test_it_has_two_stages_and_the_second_has_no_compiler() -> None:
    assert len(of("FROM")) == 2
    assert re.search(r" AS build$", of("FROM")[0])
    assert "gcc" not in TEXT.partition("FROM")[2].partition("FROM")[2]


def test_all_that_it_copies_is_there() -> None:
    for copied in of("COPY"):
        words = copied.split()
        if not words[0].startswith("--from"):
            for word in words[:-1]:
                assert (ROOT / word).exists(), word


def test_it_runs_as_a_user_without_privileges() -> None:
    uid, gid = last_stage()["USER"].split(":")
    assert int(uid) > 0
    assert int(gid) > 0
    assert f"--uid {uid} --gid {gid} " in last_stage()["RUN"]


def test_what_was_made_outside_stays_outside() -> None:
    """What is compiled here is for another Python, and .venv is larger than all the rest."""
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    assert {".venv", "build", "**/*.so", ".git"} <= set(ignored)
    assert not any(copied.split()[0] in ignored for copied in of("COPY"))


def test_what_it_starts_is_a_command_of_ours_that_gets_the_signals() -> None:
    stage = last_stage()
    words = [*json.loads(stage["ENTRYPOINT"]), *json.loads(stage["CMD"])]
    name, parameters = parse(words)
    assert name == "famulus broker"
    assert stage["STOPSIGNAL"] == "SIGTERM"
    # It is reached from outside, so it needs keys, which only a broker of a network has.
    assert str(parameters["folder"]).startswith(f"{stage['VOLUME']}/")
    assert parameters["plain_on_purpose"] is None


def test_its_health_is_asked_for_with_python_alone() -> None:
    options, _, command = last_stage()["HEALTHCHECK"].partition(" CMD ")
    python, script, page = json.loads(command)
    assert (python, page) == ("python", "healthz")
    assert f"deploy/container/probe.py {script}" in of("COPY")
    assert "--timeout=5s" in options.split()
    assert "curl" not in TEXT


def printed_by(beginning: str) -> list[str]:
    """What one of its own commands says about the files as they are."""
    (script,) = (rest.partition(" > ")[0] for rest in of("RUN") if rest.startswith(beginning))
    script = script.replace("python ", f"{sys.executable} ", 1)
    return subprocess.run(
        ["sh", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def test_it_installs_the_versions_of_the_lock() -> None:
    """Its own commands, on the lock as it is: for the image's Python, each package of a broker has one version."""
    versions = printed_by("sed ")
    python = re.match(r"python:([\d.]+)-", of("FROM")[0])
    assert python
    image = {"python_version": python[1], "python_full_version": f"{python[1]}.0"}
    every = map(Requirement, versions)
    locked = Counter(each.name for each in every if each.marker is None or each.marker.evaluate(image))
    assert set(locked.values()) == {1}
    needed = {Requirement(each).name for each in printed_by("python -c ")}
    assert {"typer", *BROKER} <= needed <= set(locked)


@pytest.mark.parametrize("word", ["ENTRYPOINT", "CMD"])
def test_no_shell_stands_between(word: str) -> None:
    for written in of(word):
        assert isinstance(json.loads(written), list)
