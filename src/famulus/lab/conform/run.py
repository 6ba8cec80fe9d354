"""Tries the rules of a role, several at a time: most of them only wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from famulus.errors import LabFailed, SettingsError
from famulus.lab.conform.clients.rules import RULES as OF_CLIENTS
from famulus.lab.conform.clients.stage import ClientStage
from famulus.lab.conform.program import offers_of
from famulus.lab.conform.rule import Broken, Result, Rule, TriedRule
from famulus.lab.conform.stage import Stage
from famulus.lab.conform.workers.rules import RULES as OF_WORKERS
from famulus.lab.conform.workers.stage import WorkerStage

#: What each role has to keep, and what it is tried on.
ROLES: dict[str, tuple[Sequence[Rule[Any]], type[Stage]]] = {
    "client": (OF_CLIENTS, ClientStage),
    "worker": (OF_WORKERS, WorkerStage),
}


#: For what should happen at once: many times as long as on an idle machine.
PATIENCE_S = 10.0


def conform(
    role: str, command: Sequence[str], names: Sequence[str] = (), jobs: int = 8, patience_s: float = PATIENCE_S
) -> Iterator[TriedRule]:
    """The verdicts in the order of the rules, each as soon as those before it are there. `names`: only these rules."""
    rules, stage = ROLES[role]
    chosen = _chosen(rules, names)
    offers = offers_of(command, patience_s)
    if unknown := offers - {rule.needs for rule in rules}:
        raise LabFailed(f"the program offers what no rule of a {role} knows: {', '.join(sorted(unknown))}")
    breaches: dict[str, str] = {}
    last = [rule for rule in chosen if rule.name in stage.of_all]
    with ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(_tried, rule, partial(stage, command, patience_s), offers, breaches) for rule in chosen]
        try:
            # What any message may break is only known when all were heard.
            yield from (each.result() for each, rule in zip(running, chosen, strict=True) if rule not in last)
            for each, rule in zip(running, chosen, strict=True):
                if rule in last:
                    yield _with_breach(each.result(), breaches.get(rule.name, ""))
        finally:
            for each in running:
                each.cancel()


def _chosen(rules: Sequence[Rule[Any]], names: Sequence[str]) -> list[Rule[Any]]:
    known = {rule.name for rule in rules}
    if missing := [name for name in names if name not in known]:
        raise SettingsError(f"--rule: there is no rule {', '.join(missing)}; there are {', '.join(sorted(known))}")
    return [rule for rule in rules if not names or rule.name in names]


def _tried(rule: Rule[Any], begin: Callable[[], Stage], offers: frozenset[str], breaches: dict[str, str]) -> TriedRule:
    verdict = TriedRule(rule.name, rule.place, rule.text, Result.PASS)
    if rule.needs and rule.needs not in offers:
        return replace(verdict, result=Result.NOT_OFFERED, seen=f"the program does not offer {rule.needs}")
    began = time.monotonic()
    with begin() as tried:
        try:
            rule.check(tried)
        except Broken as broken:
            verdict = replace(verdict, result=Result.FAIL, seen=str(broken))
        for name, seen in tried.broker.breaches.items():
            breaches.setdefault(name, seen)
            if verdict.result is Result.FAIL and name != rule.name:
                # It may have waited in vain for just this message.
                verdict = replace(verdict, seen=f"{verdict.seen} (but there was {seen})")
    return replace(verdict, seconds=round(time.monotonic() - began, 3))


def _with_breach(verdict: TriedRule, seen: str) -> TriedRule:
    return replace(verdict, result=Result.FAIL, seen=seen) if seen else verdict
