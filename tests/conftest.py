"""What holds for all tests."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import settings

from famulus._plain import is_compiled

REPOSITORY = Path(__file__).parents[1]

# How long an example takes says more about the machine and its other tenants than about the code.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


def pytest_sessionstart() -> None:
    """A compiled module hides its source: tests of a stale one would say nothing about the code at hand."""
    sources = (REPOSITORY / "compiled.txt").read_text().split()
    digest = sha256(b"".join((REPOSITORY / name).read_bytes() for name in sources)).hexdigest()
    built_from = REPOSITORY / "compiled.sha256"
    if is_compiled() and built_from.exists() and built_from.read_text() != digest:
        pytest.exit("a source in compiled.txt was changed after it was compiled: run ./famulus doctor first", 3)
