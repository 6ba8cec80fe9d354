"""The compiled modules and their sources are one and the same program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.longer import longer

from famulus._plain import is_compiled

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "src/famulus"
COMPILED = (REPOSITORY / "compiled.txt").read_text().split()


def run(core: str, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "FAMULUS_CORE": core}
    return subprocess.run(
        [sys.executable, *command], env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False
    )


def test_what_is_listed_is_there_and_defines_no_struct() -> None:
    for name in COMPILED:
        assert "Struct)" not in (REPOSITORY / name).read_text(), f"{name}: msgspec's structs cannot be compiled"
    assert sorted(set(COMPILED)) == COMPILED


def test_the_whole_of_the_dispatcher_is_compiled() -> None:
    structs = {"bounds.py", "__init__.py"}
    modules = {path.name for path in (SOURCE / "core/dispatch").glob("*.py")} - structs
    assert modules <= {Path(name).name for name in COMPILED if "/core/dispatch/" in name}


@pytest.mark.skipif(not is_compiled(), reason="nothing is compiled here")
def test_the_same_worlds_end_in_the_same_way() -> None:
    reports = [run(core, "-m", "famulus", "simulate", "--seeds", "12", "--json") for core in ("compiled", "python")]
    compiled, plain = (json.loads(report.stdout) for report in reports)
    del compiled["seconds"], plain["seconds"]
    assert compiled == plain
    assert compiled["failures"] == []


@longer
@pytest.mark.skipif(not is_compiled(), reason="nothing is compiled here")
def test_the_sources_pass_the_tests_of_the_core() -> None:
    of_the_core = sorted(str(path) for path in (REPOSITORY / "tests/unit/core").glob("test_*.py"))
    result = run("python", "-m", "pytest", "-q", "-x", *of_the_core, "tests/unit/worker/test_calls.py")
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("core", ["python", ""])
def test_the_choice_is_obeyed(core: str) -> None:
    shown = run(core, "-c", "from famulus._plain import is_compiled; print(is_compiled())").stdout
    assert shown == f"{is_compiled() if not core else False}\n"


def test_a_choice_that_nobody_knows_is_one_line_and_a_2() -> None:
    result = run("fast", "-m", "famulus", "doctor")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert "FAMULUS_CORE: must be compiled or python, not 'fast'" in result.stderr


def test_the_choice_is_no_reason_for_an_import_to_fail() -> None:
    assert run("fast", "-c", "import famulus").returncode == 0
