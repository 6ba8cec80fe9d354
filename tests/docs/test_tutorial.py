"""docs/tutorial.md as somebody follows it: in order, in one shell, at the ports of the page, and asked for nothing.

The commands are those of the page. What serves has a terminal of its own there; here it is a job of the shell.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.test_commands import EXEMPT, TUTORIAL, blocks_of, commands_of, lines_of, server_of, write_files

from famulus.lab.chaos import lan

#: Somebody stops what serves, as `served_as` calls it: `# Ctrl-C in the terminals of b1 and hello`.
CTRL_C = "# Ctrl-C in the terminals of "
EXPORT = "export "
#: A network of its own, with all ports free, and no process that outlives the shell.
ALONE = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
#: Jobs are groups of processes, as those of a terminal are, and Ctrl-C is for all of a group.
SHELL = """\
set -m -u
ip link set lo up || exit
fail() { echo "FAILED: $*"; cat said-*.txt; exit 1; }
# await FILE PATTERN
await() {
    for _ in $(seq 600); do
        grep -Eq "$2" "$1" && return
        sleep 0.1
    done
    fail "$1 has no '$2'"
}
ctrl_c() { kill -INT -- "-$1"; wait "$1" || fail "Ctrl-C: $?"; }
"""
#: What a worker says when it has found another broker; the page says which.
MOVED = "is ready again"


def served_as(command: str) -> str:
    """What people call it: a broker by its folder, if it has one, and a worker by its module."""
    named = re.search(r" broker .*--folder (\S+)| worker (\w+)", command)
    return (named[1] or named[2]) if named else "the broker"


def script_of(page: Path) -> str:
    """With what a person does between the commands: stop something, wait until something is ready, look."""
    lines = [SHELL]
    jobs: dict[str, str] = {}
    said_by: dict[str, str] = {}
    moves = iter(re.findall(rf"`({MOVED}[^`]+)`", page.read_text("utf-8")))
    for number, step in enumerate(lines_of(page)):
        if step.startswith(CTRL_C):
            names = step.removeprefix(CTRL_C).split(" and ")
            lines += [f"ctrl_c {jobs.pop(name)}" for name in names]
            if {"b1", "b2"} & {*names}:
                lines.append(f"await {said_by['hello']} {shlex.quote(next(moves))}")
        elif step.startswith(EXPORT):
            lines.append(step)
        elif (server := server_of(step)) is not None:
            name, said = served_as(step), f"said-{number}.txt"
            jobs[name], said_by[name] = f"$job_{number}", said
            lines += [f"{step} >{said} 2>&1 &", f"job_{number}=$!", f"await {said} {shlex.quote(server[0])}"]
        elif step not in EXEMPT and not step.startswith("#"):
            lines += [f"echo {shlex.quote('$ ' + step)}", f"{step} </dev/null || fail {shlex.quote(step)}", "echo"]
    return "\n".join([*lines, *(f"ctrl_c {job}" for job in reversed(jobs.values())), "echo the end"])


def shown_on(page: Path) -> list[str]:
    """The lines that the page says one sees. Ids are others every time."""
    blocks = [block.text for block in blocks_of(page) if not block.language and "./famulus" not in block.text]
    lines = [re.escape(line).replace(r"\.\.\.", ".*") for block in blocks for line in block.splitlines()]
    return [re.sub(r"\b[0-9a-f]{8}\b", "[0-9a-f]{8}", line) for line in lines]


def test_no_command_asks_for_a_name_or_a_password() -> None:
    steps = lines_of(TUTORIAL)
    (at,) = [at for at, step in enumerate(steps) if step.startswith(EXPORT)]
    assert "FAMULUS_ADMIN_PASSWORD=" in steps[at]
    assert not [step for step in steps[:at] if re.search(r" (init|config|pass|admins) ", step)]
    assert not [step for step in steps if "--user" in step]


@pytest.mark.skipif(
    not lan.can_have_namespaces() or shutil.which("unshare") is None, reason="it takes root, ip and unshare"
)
@pytest.mark.timeout(300)
def test_the_whole_of_it_in_one_shell(tmp_path: Path) -> None:
    write_files(TUTORIAL, tmp_path)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    python = shlex.quote(sys.executable)
    for name, real in {"famulus": f"{python} -m famulus", ".venv/bin/python": python}.items():
        (tmp_path / name).write_text(f'#!/bin/sh\nexec {real} "$@"\n')
        (tmp_path / name).chmod(0o755)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("FAMULUS_")}
    told = tmp_path / "told.txt"
    with told.open("wb") as output:
        done = subprocess.run(
            [*ALONE, "bash", "-c", script_of(TUTORIAL)],
            cwd=tmp_path,
            env={**plain, "PYTHONUNBUFFERED": "1", "HOME": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=280,
            check=False,
        )
    seen = told.read_text("utf-8", "replace")
    assert done.returncode == 0, seen
    assert seen.endswith("the end\n")
    greetings = [each for each in commands_of(TUTORIAL) if " call greet you" in each and "--count" not in each]
    assert seen.count("Hello, you!\n") == len(greetings) > 4
    at = 0
    for line in shown_on(TUTORIAL):
        found = re.compile(line).search(seen, at)
        assert found, f"the page shows {line!r}, which was not seen"
        at = found.end()
