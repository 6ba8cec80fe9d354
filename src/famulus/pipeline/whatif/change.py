"""What is asked: another load, other slots; for all services or for one. Knows no table.

x2        twice as much, for all services; for the load, 2 is the same
mail=x2   twice as much, for one service
mail=12   for slots: so many, for one service
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from famulus.errors import SettingsError

FACTOR_MAX: Final = 1000.0
SLOTS_MAX: Final = 100_000
_NUMBER: Final = re.compile(r"\d+(\.\d+)?|\.\d+")


@dataclass(frozen=True, slots=True)
class Amount:
    """A factor, or a number instead of what there is."""

    number: float
    is_factor: bool = True

    def of(self, present: float) -> float:
        return present * self.number if self.is_factor else self.number


SAME: Final = Amount(1.0)


@dataclass(frozen=True, slots=True)
class AskedChange:
    """By service; "" stands for all that are not named."""

    load: Mapping[str, Amount]
    slots: Mapping[str, Amount]

    @property
    def services(self) -> frozenset[str]:
        """Those that are named."""
        return frozenset({*self.load, *self.slots} - {""})

    def erlangs(self, service: str, present: float) -> float:
        return _for(service, self.load).of(present)

    def slots_of(self, service: str, present: int) -> int:
        """Half of 3 slots is 1; and nobody means to have none."""
        # What a factor such as 1.1 has lost to rounding should not cost a slot.
        return max(1, math.floor(_for(service, self.slots).of(present) + 1e-9))


def change(load: Sequence[str], slots: Sequence[str]) -> AskedChange:
    """From what was typed."""
    if not load and not slots:
        raise SettingsError("say what would be different: --load x2, --slots x0.5 or --slots SERVICE=12")
    return AskedChange(_by_service("--load", load), _by_service("--slots", slots))


def _for(service: str, amounts: Mapping[str, Amount]) -> Amount:
    return amounts.get(service, amounts.get("", SAME))


def _by_service(option: str, texts: Sequence[str]) -> dict[str, Amount]:
    found: dict[str, Amount] = {}
    for text in texts:
        # Names of services have no "=" in their last part, since amounts have none.
        service, _, amount = text.rpartition("=")
        if service in found:
            raise SettingsError(f"{option}: {'all services have' if not service else f'{service} has'} two amounts")
        found[service] = _amount(option, service, amount)
    return found


def _amount(option: str, service: str, text: str) -> Amount:
    number = text.removeprefix("x")
    if not _NUMBER.fullmatch(number) or float(number) <= 0:
        raise SettingsError(f"{option}: {text!r} is no amount such as x2, x0.5 or, for slots of a service, 12")
    if text.startswith("x") or option == "--load":
        if float(number) > FACTOR_MAX:
            raise SettingsError(f"{option}: {text} is more than {FACTOR_MAX:g} times as much")
        return Amount(float(number))
    if not service:
        raise SettingsError(
            f"{option}: x{text} is {text} times as many for all services, SERVICE={text} that many for one; "
            f"{text} alone could be both"
        )
    if not number.isdigit() or int(number) > SLOTS_MAX:
        raise SettingsError(f"{option}: {text} is no number of slots from 1 to {SLOTS_MAX:,}")
    return Amount(float(number), is_factor=False)
