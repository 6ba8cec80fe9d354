"""The error tree. Whatever Famulus raises on purpose is a `FamulusError`.

FamulusError
├── OutcomeError            a task ended otherwise than OK; carries message_id, outcome, reason
│   ├── TaskError           ERROR: the worker said so; the network does not try again
│   ├── Rejected            REJECTED: it provably did not run; trying again is safe
│   └── Unknown             UNKNOWN: it may have run
├── ProtocolError           a message broke the protocol; carries the reason code
├── SettingsError           a setting is wrong; names the key
├── BrokerUnreachable       nobody answers at that address
├── IdentityTaken           another worker is connected with our identity
├── BrokerFailed            a process of the broker cannot be kept alive
└── Closed                  used after close()
"""

from __future__ import annotations


class FamulusError(Exception):
    """The root of the tree; `exit_code` is what a command ends with when it meets one."""

    exit_code = 1


class OutcomeError(FamulusError):
    """A task ended otherwise than OK."""

    outcome = ""

    def __init__(self, reason: str, *, message_id: str = "", body: bytes = b"") -> None:
        super().__init__(reason)
        self.reason = reason
        #: Empty where the broker never told it: the task did not get that far, or the broker was lost.
        self.message_id = message_id
        #: What the worker sent along with an ERROR.
        self.body = body

    @property
    def code(self) -> str:
        """The stable part of the reason, such as `overload`."""
        return self.reason.partition(":")[0]


class TaskError(OutcomeError):
    """The worker answered ERROR."""

    outcome = "ERROR"
    exit_code = 1


class Rejected(OutcomeError):
    """The task provably did not run: trying again is safe."""

    outcome = "REJECTED"
    exit_code = 3


class Unknown(OutcomeError):
    """The task may have run; for an at-most-once service the network will not run it again."""

    outcome = "UNKNOWN"
    exit_code = 4


class ProtocolError(FamulusError):
    """A message that breaks the protocol; the sender is to blame."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(f"{code}: {sentence}")
        self.code = code


class SettingsError(FamulusError):
    """A setting that cannot be; the message names its key."""

    exit_code = 2


class BrokerUnreachable(FamulusError):
    """Nobody answers at the broker's address."""

    exit_code = 4


class IdentityTaken(FamulusError):
    """Another worker is connected with our identity, and answers."""


class BrokerFailed(FamulusError):
    """A process of the broker died too often to be started once more."""


class Closed(FamulusError):
    """A client or worker used after it was closed."""
