"""Which services a principal may call and serve: by their names, or by how these begin, with a star at the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rights:
    call: tuple[str, ...] = ()
    serve: tuple[str, ...] = ()


def allows(patterns: Iterable[str], service: str) -> bool:
    return any(service == each or (each.endswith("*") and service.startswith(each[:-1])) for each in patterns)


def not_allowed(patterns: Iterable[str], services: Iterable[str]) -> list[str]:
    """Those of these services that no pattern allows."""
    listed = tuple(patterns)
    return [service for service in services if not allows(listed, service)]


def common(one: Iterable[str], other: Iterable[str]) -> tuple[str, ...]:
    """What both of these allow: of two patterns of which one includes the other, the narrower."""
    ours, theirs = tuple(one), tuple(other)
    kept = [each for each in ours if _include(theirs, each)] + [each for each in theirs if _include(ours, each)]
    return tuple(dict.fromkeys(kept))


def _include(patterns: tuple[str, ...], narrow: str) -> bool:
    """Whether all that the narrow pattern allows is allowed by one of these."""
    if not narrow.endswith("*"):
        return allows(patterns, narrow)
    return any(each.endswith("*") and narrow.startswith(each[:-1]) for each in patterns if len(each) <= len(narrow))
