"""`famulus test`: which steps it takes, and when it stops."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from famulus.errors import SettingsError
from famulus.exit_codes import ExitCode
from famulus.lab.commands import test as command

Step = tuple[str, ...]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """The steps, of which none is really taken; one with the word "fails" fails."""
    steps: list[Step] = []

    def run(root: Path, step: Step) -> ExitCode:
        steps.append(step)
        return ExitCode.FAILED if "fails" in step else ExitCode.DONE

    monkeypatch.setattr(command, "_run", run)
    return steps


def test_all_of_it_ends_with_all_tests(taken: list[Step]) -> None:
    command.run_tests()
    assert [step[0] for step in taken] == ["ruff", "ruff", "pytest"]
    assert not [word for word in taken[-1] if word.startswith("tests/")]


def test_the_quick_one_has_the_unit_tests_and_the_simulation(taken: list[Step]) -> None:
    command.run_tests(quick=True)
    assert [step[0] for step in taken] == ["ruff", "ruff", "pytest", "famulus"]
    assert taken[-2][-2:] == ("tests/test_types.py", "tests/unit")
    assert taken[-1] == ("famulus", "simulate", "--seeds", "100")


def test_the_first_that_fails_is_the_last(taken: list[Step], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "WHOLE", (("one",), ("two", "fails"), ("three",)))
    with pytest.raises(typer.Exit) as ended:
        command.run_tests()
    assert ended.value.exit_code == ExitCode.FAILED
    assert taken == [("one",), ("two", "fails")]


def test_arguments_are_for_pytest_alone_and_not_beside_quick(taken: list[Step]) -> None:
    with pytest.raises(typer.Exit) as ended:
        command.run_tests(["tests/unit", "-x"])
    assert ended.value.exit_code == 0
    assert taken == [("pytest", "tests/unit", "-x")]
    with pytest.raises(SettingsError, match="goes without tests/unit"):
        command.run_tests(["tests/unit"], quick=True)


def test_what_is_compiled_is_kept_for_the_next_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "looks.py").write_text("import sys; sys.exit(5 if sys.dont_write_bytecode else 0)")
    assert command._run(tmp_path, ("looks",)) is ExitCode.DONE


@pytest.mark.parametrize("ending", ["sys.exit(5)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_whatever_a_step_ends_with_it_has_failed(ending: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "fails.py").write_text(f"import os, signal, sys; {ending}")
    assert command._run(tmp_path, ("fails",)) is ExitCode.FAILED
