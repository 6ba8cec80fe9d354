"""Instants as people write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from famulus.cli.journal.options import instant

NOW = datetime(2026, 11, 15, 8, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("30s", "2026-11-15T08:29:30+00:00"),
        ("10m", "2026-11-15T08:20:00+00:00"),
        ("1.5h", "2026-11-15T07:00:00+00:00"),
        ("3d", "2026-11-12T08:30:00+00:00"),
        ("2026-11-14", "2026-11-14T00:00:00+00:00"),
        ("2026-11-14T12:00", "2026-11-14T12:00:00+00:00"),
        ("2026-11-14T12:00+01:00", "2026-11-14T11:00:00+00:00"),
    ],
)
def test_so_long_ago_or_a_time(text: str, at: str) -> None:
    assert instant(text, NOW).isoformat() == at


@pytest.mark.parametrize("text", ["", "soon", "10", "10x", "-5m", "9999999999d", "2026-13-01"])
def test_anything_else_is_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="is neither a time such as"):
        instant(text, NOW)
