"""A rule of the protocol: where it stands, what it says, and how it is tried. Knows no sockets and no processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

DOCUMENT = "docs/protocol.md"

S = TypeVar("S")


class Broken(Exception):
    """A rule was not kept; the message says what was seen, for people."""


class Result(Enum):
    PASS = "pass"
    FAIL = "fail"
    NOT_OFFERED = "not offered"


@dataclass(frozen=True, slots=True)
class Rule(Generic[S]):
    name: str
    #: The anchor of its section in the document.
    section: str
    text: str
    #: What a program has to offer for this rule to concern it; empty: all of them.
    needs: str
    #: Raises `Broken`.
    check: Callable[[S], None]

    @property
    def place(self) -> str:
        return f"{DOCUMENT}#{self.section}"


@dataclass(frozen=True, slots=True)
class TriedRule:
    """What became of one rule."""

    name: str
    place: str
    text: str
    result: Result
    #: What was seen, if it failed; or what the program would have to offer.
    seen: str = ""
    seconds: float = 0.0


class Rules(Generic[S]):
    """The rules of one role, in the order in which they were added."""

    def __init__(self) -> None:
        self.all: list[Rule[S]] = []

    def add(self, section: str, needs: str = "") -> Callable[[Callable[[S], None]], Callable[[S], None]]:
        """The decorated function tries a rule. Its docstring is the rule's text, and its name that of the rule."""

        def keep(check: Callable[[S], None]) -> Callable[[S], None]:
            text = " ".join((check.__doc__ or "").split())
            self.all.append(Rule(check.__name__.replace("_", "-"), section, text, needs, check))
            return check

        return keep
