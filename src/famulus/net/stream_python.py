"""A stream in plain Python: the twin of `_stream.c`, for machines without a C compiler.

    Stream(socket, frame_bytes_max)
        Messages over a socket that is connected, does not block, and where the opening of ZMTP is over (see
        `famulus.wire.zmtp`). It remains its owner's, who closes it.

    recv() -> list of messages, each a list of frames
        What one read brought; [] when nothing is there, or no message is whole yet. Parcels are opened. Of a message
        with more than FRAMES_MAX frames the first FRAMES_MAX + 1 are kept, as the pump does.

    send(messages) -> how many were taken
        In order and in parcels, up to the first that does not fit now. Of what was taken, part may be left: `unsent`.

    write(bytes), flush() -> whether all has left
        Bytes as they are, behind what is unsent; and another try to write that.

    commands    what came besides messages; the caller empties it
    ended       why the connection is over, for people; empty while it is not. What came before is given first.
    received, written
                bytes so far

Nothing blocks. A breach by the other side ends the stream; writing never does: what is there to be read comes first.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence
from typing import Final

from famulus.net.pump_python import FRAMES_MAX, check_messages
from famulus.wire import parcels
from famulus.wire.zmtp import COMMAND, COMMAND_BYTES_MAX, LONG, MORE

#: What is read at once; a frame that is larger gets a place of its own.
INBOX_BYTES: Final = 64 * 1024
#: That nobody has looked at.
COMMANDS_MAX: Final = 64
_WRITE_MAX: Final = 64
_LENGTH: Final = struct.Struct("!Q")


class Stream:
    def __init__(self, connected: socket.socket, frame_bytes_max: int, /) -> None:
        self._socket = connected
        self._frame_bytes_max = frame_bytes_max
        self._inbox = bytearray()
        #: Those of a message whose end is not there yet.
        self._frames: list[bytes] = []
        self.commands: list[bytes] = []
        self._unsent: list[bytes] = []
        self.ended = ""
        self.received = self.written = 0

    @property
    def unsent(self) -> bool:
        return bool(self._unsent)

    # -- reading ------------------------------------------------------------------------------------------------

    def recv(self) -> list[list[bytes]]:
        if self.ended:
            return []
        try:
            # Room for the rest of a large frame, and at least what is read at once.
            chunk = self._socket.recv(max(INBOX_BYTES, self._wanted() - len(self._inbox)))
        except BlockingIOError:
            return []
        except OSError as error:
            self.ended = os.strerror(error.errno or 0)
            return []
        if not chunk:
            self.ended = "it was closed by the other side"
        self.received += len(chunk)
        self._inbox += chunk
        return self._take_all()

    def _wanted(self) -> int:
        """What the frame at the head of the inbox has in all; 0 if that is not known yet."""
        head = self._read_head()
        return sum(head[1:]) if head is not None else 0

    def _read_head(self) -> tuple[int, int, int] | None:
        """Flags, length of the head, and of what follows; None if it is not there yet, or a breach."""
        inbox = self._inbox
        if len(inbox) < 2:
            return None
        flags = inbox[0]
        if flags > MORE | LONG | COMMAND or flags & (COMMAND | MORE) == COMMAND | MORE:
            self.ended = "it sends what is no frame"
            return None
        head = 1 + _LENGTH.size if flags & LONG else 2
        if len(inbox) < head:
            return None
        size = _LENGTH.unpack_from(inbox, 1)[0] if flags & LONG else inbox[1]
        if size > (COMMAND_BYTES_MAX if flags & COMMAND else self._frame_bytes_max):
            self.ended = "it sends a frame that is too large"
            return None
        return flags, head, size

    def _take_all(self) -> list[list[bytes]]:
        messages: list[list[bytes]] = []
        while not self._over() and (found := self._read_head()) is not None:
            flags, head, size = found
            if len(self._inbox) < head + size:
                break
            frame = bytes(memoryview(self._inbox)[head : head + size])
            del self._inbox[: head + size]
            if flags & COMMAND:
                self._take_command(frame)
            else:
                messages += self._take_frame(frame, flags)
        return messages

    def _over(self) -> bool:
        return bool(self.ended)

    def _take_command(self, body: bytes) -> None:
        if len(self.commands) == COMMANDS_MAX:
            self.ended = "it sends too many commands"
        else:
            self.commands.append(body)

    def _take_frame(self, frame: bytes, flags: int) -> list[list[bytes]]:
        if not flags & MORE and not self._frames and (inside := parcels.read(frame)):
            return inside
        if len(self._frames) <= FRAMES_MAX:
            self._frames.append(frame)
        if flags & MORE:
            return []
        message, self._frames = self._frames, []
        return [message]

    # -- writing ------------------------------------------------------------------------------------------------

    def send(self, messages: Sequence[Sequence[bytes]], /) -> int:
        self.flush()
        check_messages(messages)
        for number, frames in enumerate(messages):
            if len(frames) > FRAMES_MAX:
                raise ValueError(f"message {number} has more than {FRAMES_MAX} frames")
        taken = 0
        # What is left of one message has to leave before the next.
        while taken < len(messages) and not self.unsent:
            together = parcels.run_of(messages[number] for number in range(taken, len(messages)))
            frames = [parcels.write(messages[taken : taken + together])] if together else messages[taken]
            if not self._write_whole(_framed(frames)):
                break
            taken += max(1, together)
        return taken

    def write(self, content: bytes, /) -> None:
        if not isinstance(content, bytes):
            raise TypeError(f"bytes are needed, not {type(content).__name__}")
        if content:
            self._unsent.append(content)
        self.flush()

    def flush(self) -> bool:
        while self._unsent:
            wrote = self._write(self._unsent)
            if not wrote:
                return False
            self._unsent = _behind(self._unsent, wrote)
        return True

    def _write_whole(self, pieces: list[bytes]) -> bool:
        """False if not one byte of it has left; otherwise the rest will."""
        wrote = self._write(pieces)
        if wrote:
            self._unsent += _behind(pieces, wrote)
        return wrote > 0

    def _write(self, pieces: list[bytes]) -> int:
        try:
            wrote = self._socket.sendmsg(pieces[:_WRITE_MAX], (), socket.MSG_NOSIGNAL)
        except OSError:
            return 0  # no room; or no connection, which reading will tell
        self.written += wrote
        return wrote


def _framed(frames: Sequence[bytes]) -> list[bytes]:
    pieces = []
    for number, frame in enumerate(frames, 1):
        flags = MORE if number < len(frames) else 0
        size = len(frame)
        pieces.append(bytes([flags, size]) if size < 256 else bytes([flags | LONG]) + _LENGTH.pack(size))
        pieces.append(frame)
    return pieces


def _behind(pieces: list[bytes], wrote: int) -> list[bytes]:
    """What is left of these when so much of them has been written."""
    rest = []
    for piece in pieces:
        if wrote < len(piece):
            rest.append(piece[wrote:])
        wrote = max(0, wrote - len(piece))
    return rest
