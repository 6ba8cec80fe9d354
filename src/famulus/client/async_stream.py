"""`AsyncStream`: the parts of an `AsyncClient`'s stream, for the coroutine that reads them."""

from __future__ import annotations

import asyncio

from famulus.client.parts import AnyStream, Mailbox, Part


class LoopMailbox(Mailbox):
    def __init__(self) -> None:
        super().__init__()
        self._something = asyncio.Event()

    def wake(self) -> None:
        self._something.set()

    async def wait(self) -> None:
        await self._something.wait()
        self._something.clear()


class AsyncStream(AnyStream[Part]):
    """An asynchronous iterator of the parts of a stream: see `AsyncClient.stream`.

    Whoever leaves early cancels the task: by `aclose`, at the end of an `async with`, by an error or a cancellation, or
    by forgetting the stream.
    """

    _END = StopAsyncIteration
    _mailbox: LoopMailbox

    def __aiter__(self) -> AsyncStream[Part]:
        return self

    async def __anext__(self) -> Part:
        try:
            while not self._has_next():
                await self._mailbox.wait()
            return self._take()
        except BaseException as error:
            self._finish(error)
            raise

    async def aclose(self) -> None:
        """Take no more parts: the task is cancelled, if it has not ended. Closing twice is fine."""
        if not self._closed:
            self._finish()
            self._mailbox.wake()  # another coroutine may wait

    async def __aenter__(self) -> AsyncStream[Part]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
