"""Work that may take a while, out of the way of the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

_Result = TypeVar("_Result")


def start(work: Callable[[], _Result], name: str) -> asyncio.Future[_Result]:
    """In a thread that nobody waits for when the herald ends. A RuntimeError, if the system gives us no more of them.

    The future is done when the thread is: whoever may give up waiting has to shield it.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Result] = loop.create_future()

    def finish(result: _Result | None, error: BaseException | None) -> None:
        if error is not None:
            future.set_exception(error)
            future.exception()  # whoever asked may be gone, and then nobody else would look
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, failure = None, None
        try:
            result = work()
        except Exception as error:
            failure = error
        with suppress(RuntimeError):  # the herald has ended meanwhile
            loop.call_soon_threadsafe(finish, result, failure)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
