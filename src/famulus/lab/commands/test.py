"""`famulus test`: the whole suite, as continuous integration runs it, or pytest alone as you call it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from famulus.cli.packages import missing_of
from famulus.errors import FamulusError, SettingsError
from famulus.exit_codes import ExitCode

#: Most tests wait for processes most of the time, so more of them run at once than there are cores.
AT_ONCE = 2 * (os.cpu_count() or 1)
#: A misplaced import should not cost minutes of tests.
FIRST = (("ruff", "check", "--quiet"), ("ruff", "format", "--check", "--quiet"))
#: tests/turns.py says which files are run when.
PYTEST = ("pytest", "--quiet", "--numprocesses", str(min(12, AT_ONCE)), "--dist", "loadfile", "--no-loadscope-reorder")
WHOLE = (*FIRST, PYTEST)
QUICK = (*FIRST, (*PYTEST, "tests/test_types.py", "tests/unit"), ("famulus", "simulate", "--seeds", "100"))


def run_tests(
    pytest_args: Annotated[
        list[str] | None,
        typer.Argument(metavar="PYTEST_ARGS", help="Run pytest alone, with these arguments."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only style, types, the unit tests and 100 seeds of the simulation.")
    ] = False,
) -> None:
    """Check style and types and run all tests; with arguments, run pytest alone with them."""
    root = find_root()
    if said := missing_of("dev"):
        # Its steps are processes of their own, which would only say that there is no such module.
        raise FamulusError(said)
    if quick and pytest_args:
        raise SettingsError(f"--quick says itself which tests are run: it goes without {' '.join(pytest_args)}")
    if pytest_args:
        raise typer.Exit(_run(root, ("pytest", *pytest_args)))
    for step in QUICK if quick else WHOLE:
        typer.echo(f"famulus test: {' '.join(step)}")
        if code := _run(root, step):
            raise typer.Exit(code)


def find_root() -> Path:
    """The checkout that this package was installed from in place."""
    root = Path(__file__).resolve().parents[4]
    if not (root / "tests").is_dir() or not (root / "pyproject.toml").is_file():
        raise FamulusError("this installation has neither tests nor docs; run ./famulus in a checkout of the source")
    return root


def _run(root: Path, step: tuple[str, ...]) -> ExitCode:
    """Whatever its own code means: ours have one meaning each."""
    # Announcements must come before the output of the child, even in a pipe.
    sys.stdout.flush()
    # Without files of bytecode, each of hundreds of processes would compile every module again.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([sys.executable, "-m", *step], cwd=root, env=environment, check=False)
    return ExitCode.FAILED if done.returncode else ExitCode.DONE
