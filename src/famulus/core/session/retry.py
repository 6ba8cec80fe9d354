"""After which outcomes a task is tried again, and how often: what callers say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from famulus.wire import reasons

#: The reasons of a REJECTED that may have passed a moment later.
PASSING: Final = frozenset(
    {reasons.DISABLED, reasons.OVERLOAD, reasons.NO_WORKER, reasons.NO_SERVICE, reasons.BROKER_LOST}
)
#: Outcomes, for all reasons after which another attempt makes sense.
REJECTED: Final = "REJECTED"
UNKNOWN: Final = "UNKNOWN"
#: Nobody wants it any more; or it ran, and each further request would be told so.
FINAL: Final = frozenset({reasons.CANCELLED, reasons.TOO_LARGE})


class Retry:
    """How often a task is tried again after it was refused; and one that may have run only if that is `idempotent`.

    Retry(attempts=3) sends it at most three times. Without a number it is sent until its time-out.
    Retry(on="overload") tries again after this reason only; `on` may also name several, or the outcomes "REJECTED" and
    "UNKNOWN", which stand for all of their reasons.
    """

    __slots__ = ("attempts", "doubts", "on")

    def __init__(self, attempts: int = 0, *, on: str | Iterable[str] = (REJECTED, UNKNOWN)) -> None:
        if attempts < 0:
            raise ValueError(f"attempts are a number from 1 on, or 0 for no limit, not {attempts!r}")
        self.attempts = attempts
        said = frozenset([on] if isinstance(on, str) else on)
        if others := said - PASSING - {REJECTED, UNKNOWN}:
            known = ", ".join([REJECTED, UNKNOWN, *sorted(PASSING)])
            raise ValueError(f"cannot try again after {', '.join(sorted(others))}; only after {known}")
        #: The reasons of a REJECTED.
        self.on = PASSING if REJECTED in said else said & PASSING
        #: Also after an UNKNOWN, if running twice does no harm.
        self.doubts = UNKNOWN in said

    def __repr__(self) -> str:
        return f"Retry(attempts={self.attempts}, on={[UNKNOWN] * self.doubts + sorted(self.on)})"


class Idempotent(Retry):
    """What goes for a task that may run twice; made for each call."""

    __slots__ = ("hedge_after_ns", "hedges_slowest", "is_named")

    def __init__(
        self, retry: Retry | None, hedge_after_ns: int = 0, hedges_slowest: bool = False, is_named: bool = False
    ) -> None:
        super().__init__(1 if retry is None else retry.attempts)
        if retry is not None:
            self.on, self.doubts = retry.on, retry.doubts
        #: After this long a second attempt leaves; 0: never.
        self.hedge_after_ns = hedge_after_ns
        #: A second attempt leaves when this one takes longer than nearly all others of its service.
        self.hedges_slowest = hedges_slowest
        #: It gets an id before it is sent for the first time.
        self.is_named = is_named


#: What a client does if nothing is said.
UNTIL_DEADLINE: Final = Retry()
#: For a task: what its client does.
LIKE_CLIENT: Final = Retry()
