"""A test that fails while the host has our processors is run again, and only then."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CONFTEST = """
import itertools

import pytest
from tests import stolen_time

looks = itertools.count()
stolen_time.stolen_s = lambda: next(looks) * {stolen}

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    stolen_time.run(item, nextitem)
    return True

def pytest_terminal_summary(terminalreporter):
    stolen_time.summary(terminalreporter)
"""

CASES = """
from pathlib import Path

import pytest

@pytest.fixture
def tries():
    path = Path("tries")
    with path.open("a") as file:
        file.write("x")
    return len(path.read_text())

@pytest.fixture(scope="module")
def shared():
    return []

def test_before(shared):
    shared.append("before")

def test_it(shared, tries):
    shared.append("it")
    assert shared.count("it") == 1, "what a module shares is made anew"
    assert tries >= {passes}

def test_after(shared):
    assert "it" in shared
"""


@pytest.mark.parametrize(
    ("stolen", "passes", "code", "tries"), [(0, 2, 1, 1), (100, 1, 0, 1), (100, 3, 0, 3), (100, 4, 1, 3)]
)
def test_as_often_as_three_times(tmp_path: Path, stolen: int, passes: int, code: int, tries: int) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.format(stolen=stolen))
    (tmp_path / "test_it.py").write_text(CASES.format(passes=passes))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "test_it.py"],
        cwd=tmp_path,
        # Without plugins that it has no use for: to load those takes longer than the rest.
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout
    assert len((tmp_path / "tries").read_text()) == tries
    assert ("run again" in done.stdout) == (tries > 1)
    assert done.stdout.count("test_it.py:") >= tries - 1, "each failure is told"
