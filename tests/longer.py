"""What takes too long for every change; docs/testing.md names it."""

from __future__ import annotations

import os

import pytest

IS_LONGER = "FAMULUS_LONG_TESTS" in os.environ

longer = pytest.mark.skipif(not IS_LONGER, reason="a longer run: FAMULUS_LONG_TESTS=1")


def examples(count: int) -> int:
    """So many of Hypothesis, or seeds; ten times as many in a longer run."""
    return 10 * count if IS_LONGER else count
