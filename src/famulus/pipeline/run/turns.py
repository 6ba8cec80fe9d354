"""Decides which of several tables may be begun now: whatever it is made of is there, and nobody is in its way.

Those with few rows go side by side, in lanes. One with many rows has everything for itself, and waits until no other is
left that could go before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping


class Turns:
    def __init__(self, needs: Mapping[str, Collection[str]], lanes: int, is_alone: Callable[[str], bool]) -> None:
        """`needs`: for each, in the order of preference, what must have ended before. What is not among them is there.

        `is_alone` is asked once for each, when nothing that it needs is missing any more.
        """
        self._missing = {name: {each for each in wanted if each in needs} for name, wanted in needs.items()}
        self.lanes = lanes
        self._is_alone = is_alone
        self._ready: dict[str, bool] = {}
        self._running: dict[str, bool] = {}
        self._look()

    @property
    def are_over(self) -> bool:
        return not self._missing and not self._ready and not self._running

    def begin(self) -> str | None:
        """One that may begin, and from now on counts as running."""
        if any(self._running.values()):
            return None
        if len(self._running) < self.lanes:
            for name, alone in self._ready.items():
                if not alone:
                    return self._begin(name)
        if self._ready and not self._running:
            return self._begin(next(iter(self._ready)))
        return None

    def end(self, name: str) -> None:
        del self._running[name]
        for missing in self._missing.values():
            missing.discard(name)
        self._look()

    def _begin(self, name: str) -> str:
        self._running[name] = self._ready.pop(name)
        return name

    def _look(self) -> None:
        for name in [name for name, missing in self._missing.items() if not missing]:
            del self._missing[name]
            self._ready[name] = self._is_alone(name)
