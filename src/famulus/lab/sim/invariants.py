"""What must hold, by name. Each check says in words what was broken."""

from __future__ import annotations

from enum import StrEnum


class Invariant(StrEnum):
    """What the simulations check; docs/testing.md says what each of them means."""

    SLOTS = "slots"
    ACCOUNTS = "accounts"
    TIME = "time"
    BOUNDS = "bounds"
    OUTCOMES = "outcomes"
    DELIVERY = "delivery"
    PROMPTNESS = "promptness"
    CANCELS = "cancels"
    STREAMS = "streams"
    HEDGES = "hedges"
    DELAYS = "delays"
    DRAINED = "drained"
    NOTHING_LEFT = "nothing left"
    # Of an overloaded broker.
    GOODPUT = "goodput"
    IN_VAIN = "in vain"
    NAMES = "names"
    # Where workers are chosen by key.
    AFFINITY = "affinity"
    # Of the tasks of a network.
    MEMORY = "memory"
    WAYS = "ways"
    PEERS = "peers"
    CIRCLES = "circles"
    # Of principals and their rights.
    PERMISSION = "permission"
    REVOCATION = "revocation"
    ACCESS = "access"
    # Of the config of a network.
    SAFETY = "nothing acknowledged is lost"
    CLOSURE = "closure"
    HEADS = "heads"
    AGREEMENT = "agreement"
    CONFLICTS = "conflicts"
    RIGHTS = "rights"
    BOUNDARY = "boundary"
    #: Everything heals, and every run comes to an end.
    END = "the end"


class Broken(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: Invariant, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant


def demand(holds: bool, invariant: Invariant, what: str) -> None:
    if not holds:
        raise Broken(invariant, what)
