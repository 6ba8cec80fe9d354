"""The error tree. Whatever Famulus raises on purpose is a `FamulusError`.

FamulusError
├── OutcomeError            a task ended otherwise than OK; carries service, message_id, outcome, reason
│   ├── TaskError           ERROR: the worker said so; the network does not try again
│   ├── Rejected            REJECTED: it provably did not run; trying again is safe
│   └── Unknown             UNKNOWN: it may have run
├── BadAnswer               a task ended OK, and its answer is not of the type that was expected
├── ProtocolError           a message broke the protocol; carries the reason code
├── SettingsError           a setting is wrong; names the key
│   ├── NotAnEditLog        the file that should hold the config never did
│   └── NoSuchPump          FAMULUS_PUMP asks for one that is not there
├── BrokerUnreachable       nobody answers at that address
│   └── NoBroker            so an admin's request came to nothing
├── IdentityTaken           another worker is connected with our identity
├── NurseryDied             a worker lost the process that forks its children
├── BrokerFailed            a process of the broker cannot be kept alive
├── BrokerDidNotStart       the broker of a test
├── Closed                  used after close()
│
├── Refused                 a broker says no to an admin
│   ├── Unclear             its answer makes no sense: what was asked for may have been done
│   ├── NotAllowed          wrong name or password, or not this admin's to change
│   └── HeadsMoved          somebody else was faster; carries what changed
├── NobodyAnswers           there is no HTTP port of a broker at the address
├── NoAnswer                the herald does not know yet, or cannot tell in time
├── NoTask                  no journal has the task
├── NoFinding, NotFindings  no such finding; a file that has none
├── NoSuchWord              nothing to explain by that name
│
├── PlaceError              a folder of the pipeline is not there, or must not be read or written
│   ├── FileGone            a file was there a moment ago
│   ├── FileDamaged         a file of which only the end is sound
│   └── EmptyJournal        there is nothing to read
├── TablesBusy              another run has the tables
├── StateError              what was done cannot be read
├── Misfiled                rows were about to get into a wrong folder
├── NoJava, SparkFailed     Spark did not start
├── AskFailed               rows of a DataFrame were not answered as their caller wants
├── SparkError              Spark could not do it
├── QueryError              the question is wrong
│
└── BenchFailed, LabFailed, NoNamespaces
                            the laboratory could not set up what it needs
"""

from __future__ import annotations

from typing import Any

from famulus.exit_codes import ExitCode


class FamulusError(Exception):
    """The root of the tree: whatever Famulus raises on purpose is one of these."""

    #: What a command ends with when it meets one.
    exit_code: ExitCode = ExitCode.FAILED


class _WithReason(FamulusError):
    """Somebody said why: a stable code, and a sentence for people."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        #: The code, and after a colon what it was this time.
        self.reason = reason

    @property
    def code(self) -> str:
        """The stable part of the reason, such as `overload`."""
        return self.reason.partition(":")[0]


class OutcomeError(_WithReason):
    """A task did not end as OK."""

    #: `ERROR`, `REJECTED` or `UNKNOWN`.
    outcome = ""

    def __init__(
        self, reason: str, *, message_id: str = "", body: bytes = b"", service: str = "", broker: str = ""
    ) -> None:
        super().__init__(reason)
        #: Empty if it was over before it was a task: the client has too many open already.
        self.service = service
        #: The address of the broker that had it; empty if it never got there, or the client has left that broker.
        self.broker = broker
        #: Empty if the broker never told it: the task did not get that far, or the broker was lost.
        self.message_id = message_id
        #: What the worker sent along with an ERROR.
        self.body = body

    def __str__(self) -> str:
        facts = (("service", self.service), ("task", self.message_id), ("broker", self.broker))
        known = ", ".join(f"{name} {value}" for name, value in facts if value)
        return f"{self.reason} ({known})" if known else self.reason


class TaskError(OutcomeError):
    """The worker answered ERROR."""

    outcome = "ERROR"
    exit_code = ExitCode.FAILED


class Rejected(OutcomeError):
    """The task provably did not run: trying again is safe."""

    outcome = "REJECTED"
    exit_code = ExitCode.REJECTED


class Unknown(OutcomeError):
    """The task may have run; for an at-most-once service the network will not run it again."""

    outcome = "UNKNOWN"
    exit_code = ExitCode.UNKNOWN


class BadAnswer(FamulusError):
    """A task ended OK, and its answer is not of the type that was expected."""


class ProtocolError(FamulusError):
    """A message that breaks the protocol; the sender is to blame."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(f"{code}: {sentence}")
        self.code = code


class SettingsError(FamulusError):
    """A setting that is not possible; the message names its key."""

    exit_code = ExitCode.USAGE


class NotAnEditLog(SettingsError):
    """There is nothing in the file that was ever a record."""


class NoSuchPump(SettingsError, ImportError):
    """FAMULUS_PUMP asks for a pump that is not there."""


class BrokerUnreachable(FamulusError):
    """Nobody answers at the broker's address."""

    exit_code = ExitCode.NO_ANSWER


class NoBroker(BrokerUnreachable):
    """An admin's request: nobody is there, or no answer came."""


class IdentityTaken(FamulusError):
    """Another worker is connected with our identity, and answers."""


class NurseryDied(FamulusError):
    """Without the nursery, no child can be replaced."""

    def __init__(self) -> None:
        super().__init__("the process that forks the worker's children died; start the worker again")


class BrokerFailed(FamulusError):
    """A process of the broker died too often to be started once more."""


class BrokerDidNotStart(FamulusError):
    """A broker that was started for a test; its own words follow."""


class Closed(FamulusError):
    """A client or worker used after it was closed."""


# -- admins, and people who look ------------------------------------------------------------------------------------


class Refused(_WithReason):
    """A broker says no to an admin: nothing was done."""


class Unclear(Refused):
    """A broker's answer to an admin makes no sense: what was asked for may have been done."""


class NotAllowed(Refused):
    """Wrong name or password, or not this admin's to change."""

    exit_code = ExitCode.NOT_ALLOWED


class HeadsMoved(Refused):
    """Somebody else was faster. `moved` is what changed, as the draft of an edit tells it."""

    exit_code = ExitCode.MOVED

    def __init__(self, reason: str, moved: tuple[Any, ...]) -> None:
        super().__init__(reason)
        self.moved = moved


class NobodyAnswers(FamulusError):
    """There is no HTTP port of a broker at the address."""

    exit_code = ExitCode.NO_ANSWER


class NoAnswer(FamulusError):
    """Nobody knows yet, or nobody will tell in time."""


class NoTask(FamulusError):
    """None of the journals that were searched has it."""


class NoFinding(FamulusError):
    """There is no such finding, or nothing to do about it."""

    exit_code = ExitCode.USAGE


class NotFindings(FamulusError):
    """The file cannot be read, or holds something else."""

    exit_code = ExitCode.USAGE


class NoSuchWord(FamulusError):
    """Nothing is known by that name."""

    exit_code = ExitCode.USAGE


# -- the pipeline ---------------------------------------------------------------------------------------------------


class PlaceError(FamulusError):
    """A folder that is not there, or must not be read or written."""

    exit_code = ExitCode.USAGE


class FileGone(PlaceError):
    """A file that was there a moment ago."""


class FileDamaged(PlaceError):
    """A file whose end, where Parquet says what is in it, was sound, and the rest is not."""


class EmptyJournal(PlaceError):
    """There is nothing to read."""

    exit_code = ExitCode.EMPTY


class TablesBusy(FamulusError):
    """Another run has the tables."""

    exit_code = ExitCode.BUSY


class StateError(FamulusError):
    """The record of what was done cannot be read."""


class Misfiled(FamulusError):
    """Rows were about to get into the folder of an hour that they do not belong to."""


class NoJava(FamulusError):
    """There is no Java that Spark runs on; the message says what was tried."""

    exit_code = ExitCode.USAGE


class SparkFailed(FamulusError):
    """Spark did not start."""


class AskFailed(FamulusError):
    """A row has an outcome that its caller does not want, or the key of another row."""


class SparkError(FamulusError):
    """Spark could not do it; one sentence."""


class QueryError(FamulusError):
    """The question is wrong."""

    exit_code = ExitCode.USAGE


# -- the laboratory -------------------------------------------------------------------------------------------------


class BenchFailed(FamulusError):
    """A part of the measurement did not work; its own words follow."""


class LabFailed(FamulusError):
    """A process of a chaos run, of the demo or of `conform` did not do what it should, so no promise is judged."""


class NoNamespaces(FamulusError):
    """Machines cannot be cut off from each other here."""

    def __init__(self) -> None:
        super().__init__("parting machines takes network namespaces: root, and ip")
