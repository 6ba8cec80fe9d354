"""Work that may take a while, out of the way of the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

_Result = TypeVar("_Result")


def start(work: Callable[[], _Result], name: str) -> asyncio.Future[_Result]:
    """Runs it in a thread that nobody waits for when the herald ends. Raises RuntimeError if no thread can be started.

    The future is done when the thread is: whoever may give up waiting has to shield it.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Result] = loop.create_future()

    # Whoever asked may be gone, and then nobody would look at the exception.
    future.add_done_callback(lambda done: done.cancelled() or done.exception())

    def run() -> None:
        try:
            finish = partial(future.set_result, work())
        except Exception as error:
            finish = partial(future.set_exception, error)
        with suppress(RuntimeError):  # the herald has ended in the meantime
            loop.call_soon_threadsafe(finish)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
