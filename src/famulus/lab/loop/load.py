"""Asks for several services at a steady rate each, whatever becomes of it, and says how they did."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil
from time import monotonic

from famulus import AsyncClient, OutcomeError
from famulus.lab.loop.cast import Fault

#: Longer than any service allows.
TIMEOUT_S = 10.0


@dataclass
class Answers:
    asked: int = 0
    #: Of those that ended OK.
    took_s: list[float] = field(default_factory=list)

    @property
    def ok(self) -> float:
        return len(self.took_s) / self.asked if self.asked else 0.0

    @property
    def p99_s(self) -> float:
        """The time that 99 % of them do not exceed."""
        return sorted(self.took_s)[ceil(len(self.took_s) * 0.99) - 1] if self.took_s else 0.0


def is_better(fault: Fault, before: Answers, after: Answers) -> bool:
    """As much as is demanded; and there must have been something to make better."""
    if fault.p99_left_max is not None:
        return bool(after.took_s) and after.p99_s <= fault.p99_left_max * before.p99_s
    assert fault.ok_min is not None
    return before.ok < fault.ok_min <= after.ok


def measure(address: str, faults: Iterable[Fault], seconds: float) -> dict[str, Answers]:
    return asyncio.run(_measure(address, list(faults), seconds))


async def _measure(address: str, faults: list[Fault], seconds: float) -> dict[str, Answers]:
    async with AsyncClient(address, timeout=TIMEOUT_S) as client:
        all_measured = await asyncio.gather(*(_ask(client, fault, seconds) for fault in faults))
    return {fault.service: each for fault, each in zip(faults, all_measured, strict=True)}


async def _ask(client: AsyncClient, fault: Fault, seconds: float) -> Answers:
    measured, began_s = Answers(), monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(int(seconds * fault.per_second)):
            await asyncio.sleep(max(0.0, began_s + number / fault.per_second - monotonic()))
            group.create_task(_one(client, fault.service, number, measured))
    return measured


async def _one(client: AsyncClient, service: str, number: int, measured: Answers) -> None:
    measured.asked += 1
    began_s = monotonic()
    try:
        await client.request(service, str(number))
    except OutcomeError:
        return
    measured.took_s.append(monotonic() - began_s)
