"""What a command ends with: one number for one meaning, whichever command it is.

docs/operations.md has the same table for people, and `famulus explain` tells more about each.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    DONE = 0
    #: It failed, or what was asked about is not so.
    FAILED = 1
    #: Click's number for it.
    USAGE = 2
    #: A task that provably did not run.
    REJECTED = 3
    #: A task that may have run.
    UNKNOWN = 4
    #: Another admin was faster, and nothing was changed.
    MOVED = 5
    #: Another run has the tables.
    BUSY = 6
    #: Nobody is there, or nobody answers in time.
    NO_ANSWER = 7
    #: A wrong name or password, or not yours to change.
    NOT_ALLOWED = 8
    #: There is nothing in the journal to work on.
    EMPTY = 9
    #: Shells add 128 to the number of a signal: SIGINT, Ctrl-C.
    INTERRUPTED = 130
    #: SIGTERM, where it does not mean to finish what runs.
    TERMINATED = 143
