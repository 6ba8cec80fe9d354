"""Why a request of an admin came to nothing; each with the exit code of the command that made it.

Refused                 1: the broker says no, or its answer makes no sense
├── NotAllowed          4: wrong name or password, or not this admin's to change
└── HeadsMoved          5: somebody else was faster; carries what changed
NoBroker                3: nobody is there, or no answer came
"""

from __future__ import annotations

from famulus.core.config.draft import Moved
from famulus.errors import BrokerUnreachable, FamulusError
from famulus.wire import reasons


class Refused(FamulusError):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    @property
    def code(self) -> str:
        """The stable part of the reason, such as `disabled`."""
        return reasons.code_of(self.reason)


class NotAllowed(Refused):
    exit_code = 4


class HeadsMoved(Refused):
    exit_code = 5

    def __init__(self, reason: str, moved: tuple[Moved, ...]) -> None:
        super().__init__(reason)
        self.moved = moved


class NoBroker(BrokerUnreachable):
    exit_code = 3
