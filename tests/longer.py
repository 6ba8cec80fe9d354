"""What takes too long for every change; docs/testing.md names it."""

from __future__ import annotations

import os

import pytest

longer = pytest.mark.skipif("FAMULUS_LONG_TESTS" not in os.environ, reason="a longer run: FAMULUS_LONG_TESTS=1")
