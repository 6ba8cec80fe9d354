"""Remembers which tasks have begun to answer with a stream, and how far each has got. Knows nothing about workers.

An entry is made when the first part of a task goes to its client, and dropped when the task ends. So a task that is no
stream costs nothing here, and a client can give credit only for a stream of which it has a part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from famulus.core.dispatch.task import Task


class Stream:
    __slots__ = ("bytes", "passed", "task", "wanted")

    def __init__(self, task: Task) -> None:
        self.task = task
        #: How many parts its client was sent, and how many it wants by now.
        self.passed = 0
        self.wanted = task.flow.credit
        #: Of its parts.
        self.bytes = 0


class Streams:
    def __init__(self) -> None:
        self._by_task: dict[Task, Stream] = {}
        #: By client, then by envelope: so clients name what they want more of.
        self._by_client: dict[bytes, dict[bytes, Stream]] = {}

    def __len__(self) -> int:
        return len(self._by_task)

    def begin(self, task: Task) -> Stream:
        """Its first part is about to go to its client."""
        stream = self._by_task[task] = Stream(task)
        of_client = self._by_client.get(task.client)
        if of_client is None:
            of_client = self._by_client[task.client] = {}
        of_client[task.envelope] = stream
        return stream

    def of(self, task: Task) -> Stream | None:
        return self._by_task.get(task)

    def has_begun(self, task: Task) -> bool:
        """Its client has parts of it: so nobody else may be given the task."""
        return task in self._by_task

    def find(self, client: bytes, envelope: bytes) -> Stream | None:
        of_client = self._by_client.get(client)
        return of_client.get(envelope) if of_client is not None else None

    def of_client(self, client: bytes) -> list[Stream]:
        of_client = self._by_client.get(client)
        return list(of_client.values()) if of_client is not None else []

    def end(self, task: Task) -> int:
        """It has its outcome. Returns how many bytes its parts had."""
        stream = self._by_task.pop(task, None)
        if stream is None:
            return 0
        of_client = self._by_client.get(task.client)
        # A client may have given two of its tasks the same envelope.
        if of_client is not None and of_client.get(task.envelope) is stream:
            del of_client[task.envelope]
            if not of_client:
                del self._by_client[task.client]
        return stream.bytes
