"""Decides whose question is next where more is asked than routers can read: everybody in turn.

Each asker's questions stay in their order. However many one of them has, all others have one first; and however many
clients and strangers there are, every other question is one about a task or a worker that we know.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from famulus.wire import inner

if TYPE_CHECKING:
    from famulus.core.dispatch.question import Question

_Askers = OrderedDict[bytes, "deque[Question]"]


class Turns:
    def __init__(self) -> None:
        #: By who asks; who had a turn goes to the end.
        self._outsiders: _Askers = OrderedDict()
        self._workers: _Askers = OrderedDict()
        self._outsider_was_last = False

    def __bool__(self) -> bool:
        return bool(self._outsiders) or bool(self._workers)

    def add(self, question: Question) -> None:
        askers = self._outsiders if _is_outsider(question) else self._workers
        waiting = askers.get(question.asker)
        if waiting is None:
            askers[question.asker] = deque((question,))
        else:
            waiting.append(question)

    def take(self) -> Question:
        """The next one; there must be one."""
        self._outsider_was_last = bool(self._outsiders) and not (self._outsider_was_last and self._workers)
        askers = self._outsiders if self._outsider_was_last else self._workers
        asker, waiting = askers.popitem(last=False)
        question = waiting.popleft()
        if waiting:
            askers[asker] = waiting
        return question


def _is_outsider(question: Question) -> bool:
    return question.origin == inner.FROM_CLIENT or question.origin == inner.FROM_STRANGER
