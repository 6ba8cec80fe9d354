"""What holds for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]


def pytest_sessionstart() -> None:
    """A compiled module hides its source: tests of a stale one would say nothing about the code at hand."""
    stale = [name for name in (REPOSITORY / "compiled.txt").read_text().split() if _is_stale(REPOSITORY / name)]
    if stale:
        pytest.exit(f"{', '.join(stale)}: newer than what was compiled from it; ./famulus doctor builds it anew", 3)


def _is_stale(source: Path) -> bool:
    built = list(source.parent.glob(f"{source.stem}.*.so"))
    return any(each.stat().st_mtime < source.stat().st_mtime for each in built)
