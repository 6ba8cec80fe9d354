"""A task of a client that is answered with a stream: which parts have come, and how many more it wants.

Parts come one after the other and no more of them than the credit allows, so whatever a reader has not taken yet is
bounded by that. It asks for more when half of the credit is used up: seldom enough to cost little, and early enough
that whoever makes the parts need not wait.

Two threads may use this: one puts in what comes, the other takes it out.
"""

from __future__ import annotations

from collections import deque

from famulus.core.session.done import Done, Frames
from famulus.core.session.task_kind import TaskKind
from famulus.errors import ProtocolError
from famulus.wire import headers, reasons, stream


class Streamed(Done):
    __slots__ = ("came", "credit", "is_asking", "is_fed", "is_wanted", "parts", "progress", "taken", "wants")

    def __init__(
        self,
        token: object,
        kind: TaskKind,
        message_id: str,
        envelope: bytes,
        header: bytes,
        content: bytes,
        submitted_ns: int,
        deadline_ns: int,
    ) -> None:
        super().__init__(token, kind, message_id, envelope, header, content, submitted_ns, deadline_ns)
        credit = kind.credit
        self.credit = credit
        #: Those that its reader has not taken.
        self.parts: deque[bytes] = deque()
        self.came = 0
        self.taken = 0
        #: The number of the last part that is wanted by now; and whether its reader asks for more than that.
        self.wants = credit
        self.is_asking = False
        #: The last that it told of how far it is; its reader takes it away.
        self.progress: stream.Progress | None = None
        #: There is news of which its reader has not been told.
        self.is_fed = False
        #: False from the moment that its reader has left: what comes then is dropped.
        self.is_wanted = True

    # -- what comes ---------------------------------------------------------------------------------------------

    def on_part(self, number: int, body: bytes) -> bool:
        """False if the broker may not send this: the stream is broken."""
        if number == stream.PROGRESS:
            return self._on_progress(body)
        if number != self.came + 1 or number > self.wants:
            return False
        self.came = number
        if self.is_wanted:
            self.parts.append(body)
        return True

    def _on_progress(self, body: bytes) -> bool:
        try:
            self.progress = stream.read_progress(body)
        except ProtocolError:
            return False
        return True

    def read_answer(self, header: bytes, body: bytes) -> None:
        """How it ended; a plain answer is a stream of one part."""
        super().read_answer(header, body)
        if self.outcome == "REJECTED" and self.came:
            self.outcome = "UNKNOWN"
        if self.outcome != "OK":
            return
        said = stream.read_count(header)
        if said == stream.NOT_SAID and not self.came:
            if self.is_wanted:
                self.parts.append(body)
        elif said != self.came:
            self.outcome = "UNKNOWN"
            sentence = f"{self.came} parts came, and the worker made {'none' if said == stream.NOT_SAID else said}"
            self.reason = reasons.reason(reasons.INCOMPLETE, sentence)

    def leave(self) -> None:
        """Nobody wants what still comes."""
        self.is_wanted = False

    # -- what is taken ------------------------------------------------------------------------------------------

    def take(self) -> bytes:
        """The next of its `parts`, if there is one."""
        self.taken += 1
        return self.parts.popleft()

    def is_low(self) -> bool:
        """Whether to `want` more: ask this after each part that was taken. True only once until that is done."""
        if self.is_asking or self.wants - self.taken > self.credit // 2:
            return False
        self.is_asking = True
        return True

    def want(self) -> Frames:
        """The message that tells the broker."""
        # In this order: its reader may take another part meanwhile, and ask again.
        self.is_asking = False
        self.wants = self.taken + self.credit
        return [b"", headers.CREDIT, stream.write_credit(self.envelope, self.wants)]
