"""`famulus test`: the whole suite, as continuous integration runs it, or pytest alone as you call it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from famulus.errors import FamulusError

#: Cheap ones first: a misplaced import should not cost a minute of tests.
STEPS = (
    ("ruff", "check", "--quiet"),
    ("ruff", "format", "--check", "--quiet"),
    ("mypy", "--no-error-summary"),
    # Most tests wait for processes, so three are run at once; tests/turns.py says which and when.
    ("pytest", "--quiet", "--numprocesses", "3", "--dist", "loadfile", "--no-loadscope-reorder"),
)


def run_tests(
    pytest_args: Annotated[
        list[str] | None,
        typer.Argument(metavar="PYTEST_ARGS", help="Run pytest alone, with these arguments."),
    ] = None,
) -> None:
    """Check style and types and run all tests; with arguments, run pytest alone with them."""
    root = find_root()
    if pytest_args:
        raise typer.Exit(_run(root, ("pytest", *pytest_args)))
    for step in STEPS:
        typer.echo(f"famulus test: {' '.join(step)}")
        if code := _run(root, step):
            raise typer.Exit(code)


def find_root() -> Path:
    """The checkout that this package was installed from in place."""
    root = Path(__file__).resolve().parents[4]
    if not (root / "tests").is_dir() or not (root / "pyproject.toml").is_file():
        raise FamulusError("no tests beside this installation; run ./famulus test in a checkout of the source")
    return root


def _run(root: Path, step: tuple[str, ...]) -> int:
    # Announcements must stand before the output of the child, also in a pipe.
    sys.stdout.flush()
    code = subprocess.run([sys.executable, "-m", *step], cwd=root, check=False).returncode
    # A child that died of a signal has a negative code; a shell would call it 128 + signal.
    return code if code >= 0 else 128 - code
