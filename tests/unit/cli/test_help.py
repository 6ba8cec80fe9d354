"""The help of every command: it can be read in a terminal of 80 columns, and nothing is cut off."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from famulus.cli.help import bounds_in_words
from famulus.cli.main import ABOUT_GROUPS, COMMANDS, GROUPS, PANELS, new_app
from famulus.exit_codes import ExitCode

COLUMNS = 80
FOR_DEVELOPERS = {"test", "simulate", "chaos", "conform", "docs", "fuzz", "bench"}
#: It shows something by itself.
WITHOUT_A_COMMAND = "findings"


def all_commands() -> dict[str, Any]:
    found: dict[str, Any] = {}

    def visit(words: list[str], command: Any) -> None:
        found[" ".join(words)] = command
        for name, below in getattr(command, "commands", {}).items():
            visit([*words, name], below)

    visit([], typer.main.get_command(new_app()))
    return found


ALL = all_commands()
BARE_GROUPS = sorted({"", *GROUPS} - {WITHOUT_A_COMMAND})


@cache
def help_of(name: str) -> str:
    done = CliRunner().invoke(new_app(), [*name.split(), "--help"], prog_name="famulus", env={"COLUMNS": str(COLUMNS)})
    assert done.exit_code == ExitCode.DONE
    return done.output


def test_all_of_them_are_looked_at() -> None:
    assert len(ALL) > 60
    assert {"", "call", "config set", "bench echo", "pipeline synth", "test"} <= set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_it_fits_and_nothing_is_cut_off(name: str) -> None:
    text = help_of(name)
    assert "…" not in text
    for below in getattr(ALL[name], "commands", {}).values() if name else ():
        whole = " ".join(re.split(r"(?<=\.)\s|\n\n", below.help)[0].split())
        assert whole in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= COLUMNS


@pytest.mark.parametrize("name", ALL)
def test_it_has_no_types_of_python(name: str) -> None:
    text = help_of(name)
    assert "<" not in text
    assert not re.search(r"\b(str|int|float|bool|list\[|Path)\b", text)


@pytest.mark.parametrize("name", ALL)
def test_brackets_say_once_what_may_be_left_out(name: str) -> None:
    usage = help_of(name).partition("\n\n")[0]
    assert "[[" not in usage
    assert "{" not in usage


@pytest.mark.parametrize("name", ALL)
def test_every_option_and_argument_has_its_help(name: str) -> None:
    for parameter in ALL[name].params:
        assert parameter.help, parameter.name
        assert (
            parameter.hidden
            or re.search(rf"(^|[ ,]){re.escape(parameter.opts[-1])}\b", help_of(name))
            or (parameter.metavar in help_of(name))
        ), parameter.name


@pytest.mark.parametrize("name", [name for name in ALL if name])
def test_every_command_says_what_it_does(name: str) -> None:
    assert ALL[name].help.strip()


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("call", "Usage: famulus call [OPTIONS] SERVICE [BODY]"),
        ("call", "--broker ADDRESS "),
        ("call", "9 goes first.  [default: 5; 0 to 9]"),
        ("broker", "--frontend-port PORT "),
        ("broker", "--heartbeat-ms MS "),
        ("broker", "--folder FOLDER "),
        ("broker", "-c, --config FILE "),
        ("test", "Usage: famulus test [OPTIONS] [PYTEST_ARGS]..."),
        ("brokers", "Usage: famulus brokers [OPTIONS] [PART]"),
        ("bench overload", "--timeout SECONDS "),
        ("journal tail", "One of: tasks, open_tasks, workers,"),
        ("simulate", "--what config|tasks|rights|overload"),
    ],
)
def test_values_are_called_what_people_call_them(command: str, shown: str) -> None:
    assert shown in help_of(command)


def test_bounds_in_words() -> None:
    assert bounds_in_words(1, None) == "at least 1"
    assert bounds_in_words(None, 0.5) == "at most 0.5"
    assert bounds_in_words(0, 1048576) == "0 to 1,048,576"


# -- the list of all -----------------------------------------------------------------------------------------------


def test_every_command_is_in_one_panel_and_every_group_says_what_it_is() -> None:
    listed = [name for panel in PANELS.values() for name in panel]
    assert sorted(listed) == sorted([*COMMANDS, *GROUPS])
    assert set(ABOUT_GROUPS) == set(GROUPS)


def test_each_has_one_line_and_those_for_developers_come_last() -> None:
    *for_users, last = PANELS.values()
    assert set(last) == FOR_DEVELOPERS
    assert FOR_DEVELOPERS.isdisjoint({name for panel in for_users for name in panel})
    lines = help_of("").splitlines()
    for heading, panel in PANELS.items():
        at = lines.index(f"{heading}:")
        assert [line.split()[0] for line in lines[at + 1 : at + 1 + len(panel)]] == list(panel)
        assert all(line.endswith(".") for line in lines[at + 1 : at + 1 + len(panel)])


def test_the_list_imports_no_command() -> None:
    script = (
        "import sys; from famulus.cli.main import new_app; new_app()(['--help'], standalone_mode=False); "
        "sys.exit(str([name for name in sys.modules if '.lab' in name or name in ('rich', 'famulus.cli.calling')]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == "[]\n"


# -- no command ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BARE_GROUPS)
def test_without_a_command_the_help_is_shown_and_it_is_wrong_usage(name: str) -> None:
    done = CliRunner().invoke(new_app(), name.split(), prog_name="famulus", env={"COLUMNS": str(COLUMNS)})
    assert done.exit_code == ExitCode.USAGE
    assert (done.stdout, done.stderr) == ("", help_of(name))
