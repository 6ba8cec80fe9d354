"""After which refusals a task is tried again, and how often: what callers say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from famulus.wire import reasons

#: The reasons of a REJECTED that may have passed a moment later.
PASSING: Final = frozenset(
    {reasons.DISABLED, reasons.OVERLOAD, reasons.NO_WORKER, reasons.NO_SERVICE, reasons.BROKER_LOST}
)


class Retry:
    """How often a task is tried again after it was refused; never one that may have run.

    Retry(attempts=3) sends it at most three times. Without a number it is sent until its time-out.
    Retry(on="overload") tries again after this reason only; `on` may also name several.
    """

    __slots__ = ("attempts", "on")

    def __init__(self, attempts: int = 0, *, on: str | Iterable[str] = PASSING) -> None:
        if attempts < 0:
            raise ValueError(f"attempts are a number from 1 on, or 0 for no limit, not {attempts!r}")
        self.attempts = attempts
        self.on = frozenset([on] if isinstance(on, str) else on)
        if others := self.on - PASSING:
            known = ", ".join(sorted(PASSING))
            raise ValueError(f"cannot try again after {', '.join(sorted(others))}; only after {known}")

    def __repr__(self) -> str:
        return f"Retry(attempts={self.attempts}, on={sorted(self.on)})"


#: What a client does if nothing is said.
UNTIL_DEADLINE: Final = Retry()
#: For a task: what its client does.
LIKE_CLIENT: Final = Retry()
