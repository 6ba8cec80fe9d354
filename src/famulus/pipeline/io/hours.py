"""UTC hours as numbers: counted from 1970, so that a neighbour is one more or one less."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Final

_DAY_ZERO: Final = date(1970, 1, 1)


def number_of(day: str, hour: str) -> int:
    """From date and hour as they appear in paths."""
    return (date.fromisoformat(day) - _DAY_ZERO).days * 24 + int(hour)


def day_of(number: int) -> str:
    """As it appears in paths."""
    return (_DAY_ZERO + timedelta(days=number // 24)).isoformat()


def days_before(day: str, days: int) -> str:
    return (date.fromisoformat(day) - timedelta(days=days)).isoformat()


def by_day(numbers: Iterable[int]) -> dict[str, set[int]]:
    """Hours, by their days."""
    found: dict[str, set[int]] = {}
    for each in sorted(numbers):
        found.setdefault(day_of(each), set()).add(each)
    return found


def folder_of(number: int) -> str:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=number)
    return f"date={at:%Y-%m-%d}/hour={at:%H}"


def with_neighbours(numbers: Iterable[int]) -> set[int]:
    return {each + step for each in numbers for step in (-1, 0, 1)}
