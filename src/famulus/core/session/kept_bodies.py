"""The messages that a client keeps after sending them, since another broker may have to be given them: bounded.

Those of tasks that should run at least once are kept from submission to outcome, and a task for which there is no room
is not taken. Those of other tasks are kept only if they may be tried again or there is another broker, and room.
"""

from __future__ import annotations

from typing import Final

from famulus.core.session.done import Done, Repeatable

#: Bodies of tasks that should run at least once.
KEPT_BYTES_MAX: Final = 256 * 1024 * 1024
#: Bodies of other tasks. What does not fit is dropped.
SPARE_BYTES_MAX: Final = 64 * 1024 * 1024


class KeptBodies:
    def __init__(self) -> None:
        #: How many more bytes of other tasks there is room for.
        self.spare_bytes = SPARE_BYTES_MAX
        # Each is written by one thread only: the thread that submits may not be the one that gets the outcomes.
        self._kept_bytes = self._let_go_bytes = 0

    @property
    def kept_bytes(self) -> int:
        """Of tasks that should run at least once."""
        return self._kept_bytes - self._let_go_bytes

    def has_room(self, size: int) -> bool:
        """Ask this before submitting a task that should run at least once; it reserves the room."""
        if self.kept_bytes + size > KEPT_BYTES_MAX:
            return False
        self._kept_bytes += size
        return True

    def on_sent(self, tasks: list[Done], leg: int, elsewhere: bool) -> None:
        """They were sent over this leg: keep what may be of use, if there is room."""
        spare_bytes = self.spare_bytes
        for task in tasks:
            task.leg = leg
            if isinstance(task, Repeatable):
                continue
            size = len(task.content)
            if (elsewhere or task.kind.retry is not None) and size <= spare_bytes:
                spare_bytes -= size
            else:
                task.let_go()
        self.spare_bytes = spare_bytes

    def on_renewed(self, task: Done) -> None:
        """It is about to become unsent again."""
        if task.leg and not isinstance(task, Repeatable):
            self.spare_bytes += len(task.content)

    def let_go(self, task: Done) -> None:
        """It has ended."""
        if not task.is_kept:
            return
        if isinstance(task, Repeatable):
            self._let_go_bytes += len(task.content)
        elif task.leg:
            self.spare_bytes += len(task.content)
        task.let_go()
