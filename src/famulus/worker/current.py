"""Which task is being worked on where this is asked: for what a function logs."""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple

from famulus.wire import headers
from famulus.worker.calls import Call, my_current

#: Of a coroutine, and of what it starts. Plain functions have their thread's, which is cheaper.
in_coroutine: ContextVar[Call | None] = ContextVar("famulus_call", default=None)


class CurrentTask(NamedTuple):
    service: str
    message_id: str


def current_task() -> CurrentTask | None:
    """None outside of a function of a worker. For a batch it is the first of its tasks."""
    call = in_coroutine.get() or my_current().call
    if call is None:
        return None
    # From its header, which is all that a child process has; nobody asks this for each task.
    request = headers.read_task_request(call.given.header)
    return CurrentTask(call.service.name, request.message_id if request is not None else "")
