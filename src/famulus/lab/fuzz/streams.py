"""Changed frames of sealed streams, for all that read them: one connection or many, in C and in Python.

Whatever comes, what is given out must be what was sealed: in order, none twice, none left out.
"""

from __future__ import annotations

import os
import socket
from itertools import count
from random import Random
from types import ModuleType

import famulus.net.sealing  # noqa: F401, it tells the native module how to seal
from famulus.lab.fuzz.changes import change
from famulus.lab.fuzz.failure import Failure
from famulus.net import connections_python, native, stream_python
from famulus.wire import zmtp
from famulus.wire.curve import COMMAND, MORE, Seal
from famulus.wire.parcels import packed

#: How many conversations are prepared.
PREPARED = 64
MESSAGE_BYTES_MAX = 128 * 1024
#: What one side reads before the other goes on: it fits into the buffers of a socket.
CHUNK_BYTES = 32 * 1024

Messages = list[list[bytes]]


class Conversation:
    """What an honest client says: messages, and the frames in which they travel, sealed."""

    def __init__(self, number: int) -> None:
        random = Random(f"conversation {number}")
        self.messages: Messages = []
        self.frames: list[bytes] = []
        self.key = random.randbytes(32)
        seal = Seal(self.key, is_client=True, sent=2, heard=1)
        for _ in range(random.randint(1, 6)):
            chance = random.random()
            if chance < 0.4:
                messages = [_message(random, 3) for _ in range(random.randint(1, 5))]
                self.messages += messages
                for parcel in packed(messages):
                    self._seal(seal, list(parcel))
            elif chance < 0.85:
                message = _message(random, random.choice([1, 2, 3, 4, 9]))
                self.messages.append(message)
                self._seal(seal, message)
            else:
                self.frames.append(
                    _frame(seal.close(b"\x04PING\0\0" + random.randbytes(random.randrange(12)), COMMAND))
                )

    def _seal(self, seal: Seal, message: list[bytes]) -> None:
        for number, content in enumerate(message, 1):
            self.frames.append(_frame(seal.close(content, MORE if number < len(message) else 0)))


def _message(random: Random, frames: int) -> list[bytes]:
    # Small mostly; a frame that begins with a 1 could be taken for a parcel, and rightly so.
    sizes = [random.choice([0, 1, 20, 200, 223, 300, 3000]) for _ in range(frames)]
    if random.random() < 0.03:
        sizes[0] = 66_000 if frames != 3 else 200
    return [b"m" * min(size, 1) + random.randbytes(max(0, size - 1)) for size in sizes]


def _frame(content: bytes) -> bytes:
    if len(content) < 256:
        return bytes([0, len(content)]) + content
    return bytes([zmtp.LONG]) + len(content).to_bytes(8, "big") + content


class Streams:
    def __init__(self) -> None:
        self._conversations = [Conversation(number) for number in range(PREPARED)]
        self._twins: list[tuple[str, ModuleType, ModuleType]] = [("python", stream_python, connections_python)]
        if native.NATIVE:
            from famulus.net import _pump

            # Three times: it is what most machines run.
            self._twins += [("native", _pump, _pump)] * 3
        self._halls = {
            name: module.Connections(MESSAGE_BYTES_MAX, 2**20, 2**20, 2**22, 10**9) for name, _, module in self._twins
        }
        self._names = count()

    def try_one(self, random: Random) -> str:
        """Which kind of input it was."""
        conversation, other = random.choice(self._conversations), random.choice(self._conversations)
        name, streams, _ = random.choice(self._twins)
        unchanged = random.random() < 0.02
        told = b"".join(conversation.frames)
        if not unchanged:
            told = change(random, conversation.frames, other.frames)
        by_one = random.random() < 0.5
        seal = Seal(conversation.key, is_client=False, sent=1, heard=2)
        got = self._stream(streams, told, seal) if by_one else self._hall(name, told, seal)
        if got != conversation.messages[: len(got)]:
            raise Failure(f"what came is not what was sealed ({name})")
        if unchanged and got != conversation.messages:
            raise Failure(f"only {len(got)} of {len(conversation.messages)} sealed messages came ({name})")
        return f"{name} {'stream' if by_one else 'connections'}: {'un' if unchanged else ''}changed"

    def _stream(self, module: ModuleType, told: bytes, seal: Seal) -> Messages:
        near, far = socket.socketpair()
        with near, far:
            far.setblocking(False)
            stream = module.Stream(far, MESSAGE_BYTES_MAX, seal)
            got: Messages = []
            for begin in range(0, len(told), CHUNK_BYTES):
                if not stream.ended:
                    near.sendall(told[begin : begin + CHUNK_BYTES])
                    got += self._read(stream, len(told))
                stream.commands.clear()
            near.close()
            got += self._read(stream, len(told))
            if not stream.ended:
                raise Failure("a stream does not notice that it is over")
            return got

    @staticmethod
    def _read(stream: stream_python.Stream, most: int) -> Messages:
        """All that is there; each read brings something, or was the last."""
        got: Messages = []
        for _ in range(most + 2):
            before = stream.received
            got += stream.recv()
            if stream.received == before:
                return got
        raise Failure("a stream reads without an end")

    def _hall(self, name: str, told: bytes, seal: Seal) -> Messages:
        hall, peer = self._halls[name], b"peer %d" % next(self._names)
        near, far = socket.socketpair()
        got: Messages = []
        with near, far:
            near.setblocking(True)
            hall.add(os.dup(far.fileno()), peer, seal)
            far.close()
            try:
                for begin in range(0, len(told), CHUNK_BYTES):
                    near.sendall(told[begin : begin + CHUNK_BYTES])
                    got += hall.recv(1000)
            except OSError:
                pass  # it was cut off in the middle
            near.close()
        for _ in range(len(told) + 4):
            if peer in hall.gone:
                break
            got += hall.recv(1000)
        else:
            raise Failure(f"a connection does not notice that it is over ({name})")
        hall.gone.clear()
        if any(message[0] != peer for message in got):
            raise Failure("a message came from somebody else")
        return [message[1:] for message in got]
