"""What changed between two values, field by field."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from famulus.core.config.draft import Change


def difference(seen: Any, now: Any) -> tuple[Change, ...]:
    """`UNSET` stands for a key that is not there."""
    if not isinstance(seen, dict) or not isinstance(now, dict):
        return () if _same(seen, now) else (Change("", seen, now),)
    return tuple(
        Change(field, seen.get(field, UNSET), now.get(field, UNSET))
        for field in sorted(seen.keys() | now.keys())
        if not _same(seen.get(field, UNSET), now.get(field, UNSET))
    )


def _same(one: Any, other: Any) -> bool:
    # Python takes True for 1; JSON does not.
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
