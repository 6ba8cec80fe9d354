"""`famulus completion`: what a shell offers, asked as the shell asks."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Protocol

import pytest
from typer.testing import CliRunner

from famulus.cli import main, suggestions
from famulus.cli.completion import SCRIPTS
from famulus.cli.main import COMMANDS, GROUPS
from famulus.cli.status.http_port import HttpPort
from famulus.errors import NobodyAnswers

SERVICES = ("echo", "embed", "resize")


class Offered(Protocol):
    def __call__(self, *words: str, shell: str = "bash") -> str: ...


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], checkout: Path) -> Offered:
    """What the shell is told in that folder: the last word is the one that is being typed."""
    monkeypatch.chdir(checkout)

    def ask(*words: str, shell: str = "bash") -> str:
        line = ["famulus", *words]
        monkeypatch.setattr(sys, "argv", ["famulus"])
        monkeypatch.setenv("_FAMULUS_COMPLETE", f"complete_{shell}")
        monkeypatch.setenv("COMP_WORDS", "\n".join(line))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", " ".join(line))
        monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
        with pytest.raises(SystemExit) as ended:
            main.run()
        out, err = capsys.readouterr()
        assert (ended.value.code, err) == (0, "")
        return out

    return ask


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with a program `./famulus`, as in a checkout."""
    program = tmp_path / "famulus"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m famulus "$@"\n')
    program.chmod(0o755)
    (tmp_path / "shop.py").write_text("from famulus import Worker\nworker = Worker()\n")
    (tmp_path / "other.py").write_text("print('nothing to serve here')\n")
    return tmp_path


# -- what is offered -----------------------------------------------------------------------------------------------


def test_names_of_commands(offered: Offered) -> None:
    assert offered("comp") == "completion\n"
    assert set(offered("").split()) == {*COMMANDS, *GROUPS}
    assert offered("broker-admin", "dis").split() == ["disable", "distrust"]
    assert "synth" in offered("pipeline", "").split()


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("call --at", "--at-least-once"),
        ("--ver", "--version"),
        ("simulate --what r", "rights"),
        ("broker --log-level ", "debug info warning error"),
        ("completion ", " ".join(SCRIPTS)),
        ("explain worker_l", "worker_lost"),
        ("worker ", "shop"),  # the one module of the folder that has a worker
        ("broker --config ", ""),  # files are left to the shell
    ],
)
def test_options_and_values(offered: Offered, line: str, wanted: str) -> None:
    assert offered(*line.split(" ")).split() == wanted.split()


@pytest.mark.parametrize(("shell", "wanted"), [("zsh", '"call":"Send a task'), ("fish", "call\tSend a task")])
def test_other_shells_are_told_what_each_does(offered: Offered, shell: str, wanted: str) -> None:
    assert wanted in offered("cal", shell=shell)


def test_services_are_those_of_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    told = SimpleNamespace(services=[SimpleNamespace(name=name) for name in SERVICES])
    monkeypatch.setattr(HttpPort, "ask_status", lambda self: told)
    assert suggestions.services("") == list(SERVICES)
    assert suggestions.services("e") == ["echo", "embed"]


def test_without_a_broker_no_service_is_offered_and_nothing_is_said(
    offered: Offered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAMULUS_HTTP", "127.0.0.1:1")
    with pytest.raises(NobodyAnswers):
        HttpPort().ask_status()
    assert offered("call", "e") == "\n"


# -- the scripts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_command_prints_the_script(shell: str) -> None:
    assert CliRunner().invoke(main.new_app(), ["completion", shell]).stdout == SCRIPTS[shell]


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_shell_understands_it(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    script = tmp_path / "script"
    script.write_text(SCRIPTS[shell])
    done = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("program", ["./famulus", "famulus", "~/famulus"])
def test_bash_completes_the_program_that_is_typed(checkout: Path, program: str) -> None:
    """What bash does at the tab key: it finds the function by the last part of the name, and calls it."""
    script = f"""{SCRIPTS["bash"]}
    complete -p famulus
    COMP_WORDS=({shlex.quote(program)} config hist) COMP_CWORD=2
    _famulus {shlex.quote(program)} hist config
    echo "${{COMPREPLY[@]}}"
    """
    path = f"{checkout}:/usr/bin:/bin" if program == "famulus" else "/usr/bin:/bin"
    env = os.environ | {"PATH": path, "HOME": str(checkout)}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], cwd=checkout, env=env, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "complete -o default -F _famulus famulus\nhistory\n"
