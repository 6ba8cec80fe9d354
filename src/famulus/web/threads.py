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
    """In a thread that nobody waits for when the herald ends. A RuntimeError, if the system gives us no more of them.

    The future is done when the thread is: whoever may give up waiting has to shield it.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Result] = loop.create_future()

    # Whoever asked may be gone, and then nobody else would look.
    future.add_done_callback(lambda done: done.cancelled() or done.exception())

    def run() -> None:
        try:
            finish = partial(future.set_result, work())
        except Exception as error:
            finish = partial(future.set_exception, error)
        with suppress(RuntimeError):  # the herald has ended meanwhile
            loop.call_soon_threadsafe(finish)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
