"""A stream in plain Python: the twin of `_stream.c`, for machines without a C compiler.

    Stream(socket, message_bytes_max, seal)
        Messages over a connected socket that does not block, and on which the opening of ZMTP is over (see
        `famulus.wire.zmtp`). Its owner keeps it, and closes it. All frames of a message together may have at most this
        many bytes. With a seal (see `famulus.wire.curve`), nothing is sent or heard without it; messages leave in
        parcels then, since each seal costs.

    recv() -> list of messages, each a list of frames
        What one read brought; [] when nothing is there, or no message is whole yet. Parcels are opened. Of a message
        with more than FRAMES_MAX frames the first FRAMES_MAX + 1 are kept, as the pump does.

    send(messages) -> how many were taken
        In order, several in one write, up to the first that does not fit now. Part of what was taken may be
        left: `unsent`. What is sealed is taken even if nothing of it leaves now.

    command(body), flush() -> whether all has left
        Writes a command of ZMTP, after what is unsent; and tries again to write that.

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
import sys
from collections.abc import Sequence
from typing import Final

from famulus.wire import curve, parcels, zmtp
from famulus.wire.curve import Seal
from famulus.wire.zmtp import COMMAND, COMMAND_BYTES_MAX, LONG, MORE, Foreign

#: No message of the protocol has more frames. One frame more is kept of a longer message, to show that it is longer.
FRAMES_MAX: Final = 16
#: What is read at once; a larger frame gets room of its own.
INBOX_BYTES: Final = 64 * 1024
#: Commands that nobody has looked at.
COMMANDS_MAX: Final = 64
#: What leaves in one write, unless a single message is larger.
TOGETHER_BYTES: Final = 32 * 1024
_WRITE_MAX: Final = 64
_LENGTH: Final = struct.Struct("!Q")


class Stream:
    def __init__(self, connected: socket.socket, message_bytes_max: int, seal: Seal | None = None, /) -> None:
        self._socket = connected
        self._seal = seal
        #: Whether the other side reads parcels, and we had better send them.
        self._packs = seal is not None
        self._message_bytes_max = message_bytes_max
        #: What every message begins with.
        self._before: list[bytes] = []
        self._inbox = bytearray()
        #: The frames of a message whose end has not come yet, and their bytes.
        self._frames: list[bytes] = []
        self._message_bytes = 0
        self.commands: list[bytes] = []
        self._unsent: list[bytes] = []
        self.ended = ""
        self.received = self.written = 0
        #: Whether the last read filled all the room that there was; whether a write has failed for good.
        self._full = self.cut_off = False

    @property
    def unsent(self) -> bool:
        return bool(self._unsent)

    # -- reading ------------------------------------------------------------------------------------------------

    def recv(self) -> list[list[bytes]]:
        messages: list[list[bytes]] = []
        if self._read():
            self._take(messages, sys.maxsize)
        return messages

    def _read(self) -> int:
        """Reads once; returns how much it was. Also notes if the connection is over."""
        if self.ended:
            return 0
        # Room for the rest of a large frame, and at least what is read at once.
        room = max(INBOX_BYTES, self._wanted()) - len(self._inbox)
        try:
            chunk = self._socket.recv(room)
        except BlockingIOError:
            chunk = b""
        except OSError as error:
            self.ended = os.strerror(error.errno or 0)
            chunk = b""
        else:
            if not chunk:
                self.ended = "it was closed by the other side"
        self._full = len(chunk) == room
        self.received += len(chunk)
        self._inbox += chunk
        return len(chunk)

    def _wanted(self) -> int:
        """The whole size of the frame at the head of the inbox; 0 if it is not known yet."""
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
        size: int = _LENGTH.unpack_from(inbox, 1)[0] if flags & LONG else inbox[1]
        left = self._message_bytes_max - self._message_bytes
        if flags & COMMAND:
            if size > COMMAND_BYTES_MAX:
                self.ended = "it sends a command that is too large"
        elif size > left or not left:
            self.ended = "it sends a message that is too large"
        return None if self.ended else (flags, head, size)

    def _take(self, messages: list[list[bytes]], limit: int) -> bool:
        """Takes whole messages until there are this many; returns whether there may be more."""
        while not self.ended:
            if len(messages) >= limit:
                return bool(self._inbox)
            found = self._read_head()
            if found is None:
                break
            flags, head, size = found
            if len(self._inbox) < head + size:
                break
            frame = bytes(memoryview(self._inbox)[head : head + size])
            del self._inbox[: head + size]
            if self._seal is not None:
                try:
                    frame, flags = _unseal(self._seal, frame, flags)
                except Foreign as error:
                    self.ended = str(error)
                    break
            if flags & COMMAND:
                self._take_command(frame)
            else:
                # Heads count as well, so that even an endless row of empty frames is bounded.
                self._message_bytes = min(self._message_bytes + head + size, self._message_bytes_max)
                messages += self._take_frame(frame, flags)
        return False

    def _take_command(self, body: bytes) -> None:
        if len(self.commands) == COMMANDS_MAX:
            self.ended = "it sends too many commands"
        else:
            self.commands.append(body)

    def _take_frame(self, frame: bytes, flags: int) -> list[list[bytes]]:
        before = self._before
        if not flags & MORE and not self._frames and (inside := parcels.read(frame)):
            self._message_bytes = 0
            self._packs = self._seal is not None
            return [before + message for message in inside]
        if len(self._frames) <= FRAMES_MAX:
            self._frames.append(frame)
        if flags & MORE:
            return []
        message, self._frames = self._frames, []
        self._message_bytes = 0
        return [before + message]

    # -- writing ------------------------------------------------------------------------------------------------

    def send(self, messages: Sequence[Sequence[bytes]], /) -> int:
        self.flush()
        check_messages(messages, FRAMES_MAX)
        taken = 0
        # What is left of earlier messages has to leave before the next.
        while taken < len(messages) and not self.unsent:
            first, size = taken, 0
            while taken < len(messages) and size < TOGETHER_BYTES:
                size += sum(map(len, messages[taken]))
                taken += 1
            pieces = self._pieces(messages[first:taken])
            if self._seal is not None:
                # It has its number, and nothing else may have that: it has to leave.
                self._unsent += pieces
                self.flush()
            # The system takes only a few pieces at once; what is large is not copied.
            elif not self._write_whole(pieces if taken - first == 1 else [b"".join(pieces)]):
                return first
        return taken

    def _pieces(self, messages: Sequence[Sequence[bytes]]) -> list[bytes]:
        """These messages, as pieces that are written one after the other."""
        if self._seal is None:
            return [piece for message in messages for piece in framed(message)]
        pieces: list[bytes] = []
        for message in parcels.packed(messages) if self._packs else messages:
            for number, frame in enumerate(message, 1):
                pieces += framed([self._seal.close(frame, curve.MORE if number < len(message) else 0)])
        return pieces

    def command(self, body: bytes, /) -> None:
        if not isinstance(body, bytes):
            raise TypeError(f"bytes are needed, not {type(body).__name__}")
        if self._seal is None:
            self._unsent.append(zmtp.framed_command(body))
        else:
            self._unsent += framed([self._seal.close(body, curve.COMMAND)])
        self.flush()

    def flush(self) -> bool:
        while self._unsent:
            wrote = self._write(self._unsent)
            if not wrote:
                return False
            self._unsent = _behind(self._unsent, wrote)
        return True

    def _write_whole(self, pieces: list[bytes]) -> bool:
        """False if not one byte of it has left; otherwise the rest will follow."""
        wrote = self._write(pieces)
        if wrote:
            self._unsent += _behind(pieces, wrote)
        return wrote > 0

    def _write(self, pieces: list[bytes]) -> int:
        try:
            wrote = self._socket.sendmsg(pieces[:_WRITE_MAX], (), socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return 0
        except OSError:
            self.cut_off = True
            return 0  # reading will tell why
        self.written += wrote
        return wrote


def _unseal(seal: Seal, frame: bytes, flags: int) -> tuple[bytes, int]:
    """What was sealed, with its flags as they would be without a seal."""
    if flags & (MORE | COMMAND):
        raise Foreign("it sends what is not sealed")
    opened, inside = seal.open(frame)
    if inside == curve.MORE | curve.COMMAND or (inside == curve.COMMAND and len(opened) > COMMAND_BYTES_MAX):
        raise Foreign("it sends what is no frame")
    return opened, COMMAND if inside & curve.COMMAND else inside


def framed(frames: Sequence[bytes]) -> list[bytes]:
    """A message as pieces that are written one after the other."""
    pieces = []
    for number, frame in enumerate(frames, 1):
        flags = MORE if number < len(frames) else 0
        size = len(frame)
        pieces.append(bytes([flags, size]) if size < 256 else bytes([flags | LONG]) + _LENGTH.pack(size))
        pieces.append(frame)
    return pieces


def _behind(pieces: list[bytes], wrote: int) -> list[bytes]:
    """What is left of these pieces once so many bytes of them have been written."""
    for number, piece in enumerate(pieces, 1):
        if wrote < len(piece):
            return [piece[wrote:], *pieces[number:]]
        wrote -= len(piece)
    return []


def check_messages(messages: Sequence[Sequence[bytes]], frames_max: int = sys.maxsize) -> None:
    """Raise before anything leaves: half a batch is bad, half a message is worse."""
    if not isinstance(messages, list | tuple):
        raise TypeError(f"messages must be a list or tuple, not {type(messages).__name__}")
    for number, frames in enumerate(messages):
        if not isinstance(frames, list | tuple):
            raise TypeError(f"message {number} must be a list or tuple, not {type(frames).__name__}")
        if not frames:
            raise ValueError(f"message {number} has no frames")
        for position, frame in enumerate(frames):
            if not isinstance(frame, bytes):
                raise TypeError(f"message {number}, frame {position} must be bytes, not {type(frame).__name__}")
        if len(frames) > frames_max:
            raise ValueError(f"message {number} has more than {frames_max} frames")
