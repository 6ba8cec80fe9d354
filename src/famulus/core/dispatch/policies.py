"""The choosers by the numbers of their policies."""

from __future__ import annotations

from famulus.core.dispatch.by_key import ByKey
from famulus.core.dispatch.chooser import Chooser
from famulus.core.dispatch.ewma import Ewma
from famulus.core.dispatch.least_busy import LeastBusy
from famulus.core.dispatch.lru import LRU
from famulus.wire.inner import POLICIES


def chooser_of(policy: int) -> Chooser:
    """`policy` is a place in `POLICIES`."""
    name = POLICIES[policy]
    if name == "least_busy":
        return LeastBusy()
    if name == "ewma":
        return Ewma()
    return ByKey() if name == "key" else LRU()
