"""The edits of the config that a synthetic journal tells of: when each broker had them, and who disagreed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np

from famulus.lab.synth.plan import US_PER_HOUR, US_PER_MINUTE, US_PER_S
from famulus.lab.synth.world import PRINCIPALS, World

US_PER_DAY: Final = 24 * US_PER_HOUR

#: Edits that every broker had before the journal begins.
BEFORE: Final = 3


@dataclass(frozen=True, slots=True)
class Edit:
    id: str
    key: str
    author: str
    broker: int
    at_us: int
    #: When each broker had it.
    had_us: tuple[int, ...]
    #: Of a principal: when its keys expire.
    expires_us: int | None = None


@dataclass(frozen=True, slots=True)
class Conflict:
    first: Edit
    second: Edit
    #: What settled it, if anything did.
    settled: Edit | None


def _edit(world: World, what: str, key: str, author: str, broker: int, at_us: int, slow_us: int = 0) -> Edit:
    """It reaches the others in less than a second, and the last one `slow_us` later."""
    brokers = world.plan.brokers
    had = [at_us + (0 if each == broker else 80_000 + 35_000 * each) for each in range(brokers)]
    last = (broker - 1) % brokers
    had[last] += slow_us
    identity = world.name("edit", what) + world.name("edit too", what)
    return Edit(identity, key, author, broker, at_us, tuple(had))


def slow_edit(world: World) -> Edit:
    delay = min(20 * US_PER_MINUTE, world.plan.hours * 6 * US_PER_MINUTE)
    key = f"service/{world.services[0].name}"
    return _edit(world, "slow", key, "grace", 0, world.plan.at_us(0.25) + 7_000_000, delay)


def expiring_key(world: World) -> Edit:
    key, at_us = f"principal/{PRINCIPALS[1]}", world.plan.at_us(0.55) + 4 * US_PER_S
    return replace(_edit(world, "expiring", key, "ada", 0, at_us), expires_us=world.plan.end_us + 5 * US_PER_DAY)


def _lasting_key(world: World) -> Edit:
    at_us = world.plan.at_us(0.50) + 4 * US_PER_S
    key = _edit(world, "lasting", f"principal/{PRINCIPALS[0]}", "ada", 0, at_us)
    return replace(key, expires_us=world.plan.end_us + 400 * US_PER_DAY)


def conflict(world: World, name: str) -> Conflict:
    """The one of the truth with this name."""
    resolved = name == "resolved_conflict"
    key = f"service/{world.services[1].name}" if resolved else f"family/{world.families[0]}"
    at_us = world.plan.at_us(0.35 if resolved else 0.70) + 3_000_000
    first = _edit(world, f"{name} 1", key, "ada", 0, at_us)
    second = _edit(world, f"{name} 2", key, "grace", 1, at_us + 20_000)
    settled = _edit(world, f"{name} 3", key, "ada", 0, at_us + 4 * US_PER_MINUTE) if resolved else None
    return Conflict(first, second, settled)


def conflicts(world: World) -> list[Conflict]:
    return [conflict(world, name) for name in ("resolved_conflict", "open_conflict") if world.has(name)]


@lru_cache(maxsize=4)
def edits(world: World) -> list[Edit]:
    plan = world.plan
    known = [
        _edit(world, "plain 1", f"service/{world.services[0].name}", "ada", 0, plan.at_us(0.05) + 5 * US_PER_S),
        _edit(world, "plain 2", f"service/{world.services[-1].name}", "grace", 1, plan.at_us(0.15) + 9 * US_PER_S),
    ]
    if world.has("expiring_key"):
        known += [_lasting_key(world), expiring_key(world)]
    if world.has("slow_convergence"):
        known.append(slow_edit(world))
    said = [edit for each in conflicts(world) for edit in (each.first, each.second, each.settled)]
    return known + [edit for edit in said if edit is not None]


def versions(world: World, broker: int, at_us: np.ndarray) -> np.ndarray:
    """How many edits the broker had then."""
    had = np.sort(np.array([edit.had_us[broker] for edit in edits(world)], dtype=np.int64))
    return BEFORE + np.searchsorted(had, at_us, side="right").astype(np.int64)


def rows(world: World) -> Iterator[dict[str, Any]]:
    """Of the table `config`."""
    for edit in edits(world):
        for broker in range(world.plan.brokers):
            event = "accepted" if broker == edit.broker else "applied"
            yield _row(world, event, edit, broker, edit.had_us[broker])
    for each in conflicts(world):
        highest = max(each.first, each.second, key=lambda edit: edit.id)
        for broker in range(world.plan.brokers):
            seen_us = max(each.first.had_us[broker], each.second.had_us[broker])
            yield _row(world, "conflict", highest, broker, seen_us)
            if each.settled is not None:
                yield _row(world, "resolved", each.settled, broker, each.settled.had_us[broker])


def _row(world: World, event: str, edit: Edit, broker: int, at_us: int) -> dict[str, Any]:
    had = sorted(each.id for each in edits(world) if each.had_us[broker] <= at_us)
    return {
        "broker": broker,
        "at": at_us,
        "event": event,
        "edit": edit.id,
        "key": edit.key,
        "author": edit.author,
        "accepted_by": world.brokers[edit.broker],
        "edited": edit.at_us,
        "expires": edit.expires_us,
        "version": BEFORE + len(had),
        "digest": hashlib.sha256("".join(had).encode()).hexdigest(),
    }
