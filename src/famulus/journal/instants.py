"""Instants as people write them: a time ago, or a date and time. Knows no clock: now comes in."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def instant(text: str, now: datetime) -> datetime:
    """`10m` or `2h` before now, or an ISO time, in UTC if it names no zone; a ValueError in words for anything else."""
    ago = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    try:
        if ago is not None:
            return now - timedelta(seconds=float(ago[1]) * _UNITS[ago[2]])
        found = datetime.fromisoformat(text.strip())
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is neither a time such as 2026-11-15T08:30 nor a time ago such as 30s, 10m, 2h or 3d"
        ) from None
