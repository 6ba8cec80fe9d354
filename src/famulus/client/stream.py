"""`Stream`: the parts of a `Client`'s stream, for the thread that reads them."""

from __future__ import annotations

import threading
from contextlib import suppress

from famulus.client.parts import AnyStream, Mailbox, Part


class ThreadMailbox(Mailbox):
    def __init__(self) -> None:
        super().__init__()
        # Held while there is nothing new; the I/O thread releases it once per batch, not once per part.
        self._nothing = threading.Lock()
        self._nothing.acquire()

    def wake(self) -> None:
        with suppress(RuntimeError):  # a thread that closes the stream may be faster
            if self._nothing.locked():
                self._nothing.release()

    def wait(self) -> None:
        self._nothing.acquire()


class Stream(AnyStream[Part]):
    """An iterator of the parts of a stream: see `Client.stream`.

    Whoever leaves early cancels the task: by `close`, at the end of a `with`, by an error, or by forgetting the stream.
    """

    _END = StopIteration
    _mailbox: ThreadMailbox

    def __iter__(self) -> Stream[Part]:
        return self

    def __next__(self) -> Part:
        try:
            while not self._has_next():
                self._mailbox.wait()
            return self._take()
        except BaseException as error:
            self._finish(error)
            raise

    def close(self) -> None:
        """Take no more parts: the task is cancelled, if it has not ended. Closing twice is fine."""
        if not self._closed:
            self._finish()
            self._mailbox.wake()  # another thread may wait

    def __enter__(self) -> Stream[Part]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
