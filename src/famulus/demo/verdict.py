"""Which promises the demo saw broken. It should be none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from famulus.demo.audience import Account, Ended
from famulus.demo.cast import SLOTS

#: So long after a loss a task may still end as UNKNOWN or REJECTED because of it: its deadline, and a little.
AFTERMATH_S: Final = 4.0


@dataclass(frozen=True, slots=True)
class Recovery:
    """Something was lost, and was there again: what, how long that took, and how long it may take."""

    what: str
    seconds: float
    allowed_s: float

    @property
    def kept(self) -> bool:
        return self.seconds <= self.allowed_s


def broken(
    accounts: Mapping[str, Account], recoveries: Iterable[Recovery], worker_killed_s: float, broker_killed_s: float
) -> list[str]:
    found = [f"{each.what} took {each.seconds:.1f} s" for each in recoveries if not each.kept]
    for name, account in accounts.items():
        found += [f"{name}: {fault}" for fault in _faults(account, worker_killed_s, broker_killed_s)]
    return found


def _faults(account: Account, worker_killed_s: float, broker_killed_s: float) -> list[str]:
    faults = []
    if missing := account.sent - account.outcomes.total():
        faults.append(f"{missing} tasks have no outcome")
    if account.wrong_answers:
        faults.append(f"{account.wrong_answers} answers were wrong")
    after_broker = [each for each in account.trouble if _is_after(each, broker_killed_s)]
    # The broker is killed soon after the worker: what goes wrong from then on is not the worker's.
    after_worker = [each for each in account.trouble if _is_after(each, worker_killed_s) and each not in after_broker]
    elsewhere = [each for each in account.trouble if each not in after_worker and each not in after_broker]
    if elsewhere:
        faults.append(f"{len(elsewhere)} tasks failed while nothing was lost ({_codes(elsewhere)})")
    if len(after_worker) > SLOTS:
        faults.append(f"{len(after_worker)} tasks failed though the lost worker had {SLOTS} slots")
    if account.service.delivery == "at_least_once" and account.trouble:
        faults.append(f"{len(account.trouble)} at-least-once tasks were not given to somebody else")
    if wrong := [each for each in account.trouble if each.outcome in ("OK", "ERROR")]:
        faults.append(f"{len(wrong)} tasks ended with the other of OK and ERROR")
    return faults


def _is_after(ended: Ended, killed_s: float) -> bool:
    return killed_s <= ended.at_s <= killed_s + AFTERMATH_S


def _codes(all_ended: Iterable[Ended]) -> str:
    return ", ".join(sorted({each.code or each.outcome for each in all_ended}))
