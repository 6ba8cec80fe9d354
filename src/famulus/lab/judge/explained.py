"""Which findings the faults of a chaos run explain, and which they must lead to. Knows no journal and no processes.

Nothing is planted there: workers and brokers are really killed, stopped and cut off. So a finding is right if a fault
struck the one whom it is about, in a way that leads to such a finding; any other is false.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from famulus.lab.chaos.plan import PARTING, Fault
from famulus.lab.judge.expected import Named

#: What ends a dispatcher, and what takes rows of its journal away. Whoever is stopped for long is killed.
_ENDS: Final = frozenset(f"{verb}_{part}" for verb in ("kill", "stop") for part in ("broker", "supervisor"))
_CRASHES: Final = _ENDS | {"kill_dispatcher", "stop_dispatcher"}
_ROWS_GONE: Final = _CRASHES | {"kill_scribe", "stop_scribe"}
#: What makes a worker vanish for its broker, or take long.
_WORKER: Final = PARTING | {"kill_worker", "stop_worker"}
#: What makes tasks wait for workers that are away, or be refused.
_CAPACITY: Final = _CRASHES | _WORKER | {"drain_worker", "drain_broker", "disable_broker"}
#: What keeps brokers from hearing of each other's edits.
_APART: Final = PARTING | _ENDS | {"kill_steward", "stop_steward", "drain_broker"}

_Explains = Callable[[str, Sequence[Fault]], bool]


def _struck(kinds: Collection[str], times: int = 1) -> _Explains:
    """So many of these struck the first whom the finding names."""
    return lambda subject, faults: sum(_is_on(subject.split()[0], fault, kinds) for fault in faults) >= times


def _is_on(name: str, fault: Fault, kinds: Collection[str]) -> bool:
    return fault.kind in kinds and name in fault.whom


def _anywhere(kinds: Collection[str]) -> _Explains:
    return lambda _, faults: any(fault.kind in kinds for fault in faults)


def _conflict(key: str, faults: Sequence[Fault]) -> bool:
    """Two edits of the key, while brokers were apart."""
    edits = "disable_broker" if key.startswith("broker_state/") else "edit_config"
    return _anywhere(_APART)(key, faults) and sum(fault.kind == edits for fault in faults) >= 1


#: By kind of finding. Others are never right here: no fault makes the audit fail, nobody has an objective or a key.
EXPLAINS: Final[Mapping[str, _Explains]] = {
    # Once may happen to any machine.
    "bad_worker": _struck(_WORKER, 2),
    "backlog_full": _anywhere(_CAPACITY),
    "no_worker": _anywhere(_CAPACITY),
    "broker_unstable": _struck(_CRASHES, 3),
    "crash_lost_tasks": _struck(_CRASHES),
    "journal_gaps": _struck(_ROWS_GONE),
    "edits_missing": _struck(_ROWS_GONE | _APART),
    "config_conflict": _conflict,
}


def renamed(found: Collection[Named], names: Mapping[str, str]) -> set[Named]:
    """With the names of the plan in place of the identities that only this run knows."""
    words = [(each.kind, each.subject.split(" ")) for each in found]
    return {Named(kind, " ".join(names.get(word, word) for word in subject)) for kind, subject in words}


def explained(found: Collection[Named], faults: Sequence[Fault]) -> set[Named]:
    return {each for each in found if each.kind in EXPLAINS and EXPLAINS[each.kind](each.subject, faults)}


def must_find(faults: Sequence[Fault]) -> dict[Named, str]:
    """What follows for certain: where nothing else took away the rows that would show it."""
    times = Counter((name, fault.kind) for fault in faults for name in fault.whom)
    deaths = {name: count for (name, kind), count in times.items() if kind == "kill_dispatcher"}
    sure = [name for name in deaths if not any(times[name, kind] for kind in _ROWS_GONE - {"kill_dispatcher"})]
    found = {Named("crash_lost_tasks", name): "kill_dispatcher" for name in sure}
    return found | {Named("broker_unstable", name): "kill_dispatcher" for name in sure if deaths[name] >= 3}
