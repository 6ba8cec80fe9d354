"""What is to leave the dispatcher, and the only way in which it does."""

from __future__ import annotations

from typing import Protocol

Frames = list[bytes]


class Outgoing:
    """What all parts of the dispatcher have to say, until it is taken."""

    __slots__ = ("clients", "delegates", "questions", "steward", "workers")

    def __init__(self) -> None:
        self.clients: list[Frames] = []
        self.workers: list[Frames] = []
        #: For other brokers, each with the name of the one that should get it.
        self.delegates: list[tuple[bytes, Frames]] = []
        self.steward: list[Frames] = []
        #: For each router that has something to answer, all of its questions.
        self.questions: list[tuple[bytes, list[Frames]]] = []

    def __bool__(self) -> bool:
        return bool(self.workers or self.clients or self.delegates or self.steward)

    def take(self, questions: list[tuple[bytes, list[Frames]]]) -> Outgoing:
        """All of it, with these questions; nothing is left here."""
        taken = Outgoing()
        taken.clients, self.clients = self.clients, taken.clients
        taken.workers, self.workers = self.workers, taken.workers
        taken.delegates, self.delegates = self.delegates, taken.delegates
        taken.steward, self.steward = self.steward, taken.steward
        taken.questions = questions
        return taken


class Ports(Protocol):
    """Where it leaves: sockets, or whatever stands in for them. Each says what was not taken, or whether it was."""

    def to_clients(self, messages: list[Frames]) -> list[Frames]: ...
    def to_workers(self, messages: list[Frames]) -> list[Frames]: ...
    def to_router(self, router: bytes, questions: list[Frames]) -> bool: ...
    def to_delegate(self, identity: bytes, task: Frames) -> bool: ...
    def to_steward(self, messages: list[Frames]) -> bool: ...
