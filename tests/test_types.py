"""All types fit, in the sources and in the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(600)
def test_mypy_finds_nothing() -> None:
    """Here, and not before the tests: it keeps one core busy for half a minute."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary"]
    found = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
