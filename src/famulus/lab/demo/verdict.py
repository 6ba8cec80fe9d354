"""Which promises the demo saw broken. It should be none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from famulus.lab.demo.audience import Account, Ended
from famulus.lab.demo.cast import SLOTS

#: So long after a loss, and after the time that it took to mend, a task may still end as UNKNOWN or REJECTED by it.
AFTERMATH_S: Final = 4.0
#: A machine that has too much to do refuses tasks, or lets their time run out. That is no broken promise, since they
#: did not run and whoever asked was told so; but more than this share would be no service either.
BUSY_SHARE_MAX: Final = 0.1
_BUSY: Final = frozenset({"expired", "overload"})


@dataclass(frozen=True, slots=True)
class Recovery:
    """Something was lost, and was there again: what, how long that took, and how long it may take."""

    what: str
    seconds: float
    allowed_s: float

    @property
    def kept(self) -> bool:
        return self.seconds <= self.allowed_s


@dataclass(slots=True)
class Loss:
    """When somebody was killed, and when all was well again as far as one could see."""

    killed_s: float = 0.0
    mended_s: float = 0.0

    @property
    def over_s(self) -> float:
        return self.mended_s + AFTERMATH_S

    def explains(self, ended: Ended) -> bool:
        return self.killed_s <= ended.at_s <= self.over_s


def broken(accounts: Mapping[str, Account], recoveries: Iterable[Recovery], worker: Loss, broker: Loss) -> list[str]:
    found = [f"{each.what} took {each.seconds:.1f} s" for each in recoveries if not each.kept]
    for name, account in accounts.items():
        found += [f"{name}: {fault}" for fault in _faults(account, worker, broker)]
    return found


def _faults(account: Account, worker: Loss, broker: Loss) -> list[str]:
    faults = []
    if missing := account.sent - account.outcomes.total():
        faults.append(f"{missing} tasks have no outcome")
    if account.wrong_answers:
        faults.append(f"{account.wrong_answers} answers were wrong")
    busy = [each for each in account.trouble if each.code in _BUSY]
    if len(busy) > BUSY_SHARE_MAX * account.sent:
        faults.append(f"{len(busy)} of {account.sent} tasks were refused ({_codes(busy)})")
    trouble = [each for each in account.trouble if each.code not in _BUSY]
    after_broker = [each for each in trouble if broker.explains(each)]
    # The broker is killed soon after the worker: what goes wrong from then on is not the worker's.
    after_worker = [each for each in trouble if worker.explains(each) and each not in after_broker]
    elsewhere = [each for each in trouble if each not in after_worker and each not in after_broker]
    if elsewhere:
        faults.append(f"{len(elsewhere)} tasks failed while nothing was lost ({_codes(elsewhere)})")
    if len(after_worker) > SLOTS:
        faults.append(f"{len(after_worker)} tasks failed though the lost worker had {SLOTS} slots")
    if account.service.delivery == "at_least_once" and trouble:
        faults.append(f"{len(trouble)} at-least-once tasks were not given to somebody else")
    if wrong := [each for each in trouble if each.outcome in ("OK", "ERROR")]:
        faults.append(f"{len(wrong)} tasks ended with the other of OK and ERROR")
    return faults


def _codes(all_ended: Iterable[Ended]) -> str:
    return ", ".join(sorted({each.code or each.outcome for each in all_ended}))
