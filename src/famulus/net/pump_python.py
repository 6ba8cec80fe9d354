"""The pump in plain Python: the twin of `_pump.c`, for machines without a C compiler.

The same functions with the same results, some ten times slower. See `famulus.net.pump` for what they promise.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from operator import index

import zmq

#: No message of the protocol has more frames. One frame more is kept of a longer message, to show that it is.
FRAMES_MAX = 16

_REFUSALS = frozenset({errno.EAGAIN, errno.EHOSTUNREACH})
_DONTWAIT = int(zmq.DONTWAIT)  # plain integers: pyzmq's enums cost more than the calls they are for
_MORE = int(zmq.DONTWAIT | zmq.SNDMORE)


def error_for(code: int) -> zmq.ZMQError:
    """The exception that pyzmq itself would raise for this errno."""
    if code == zmq.ETERM:
        return zmq.ContextTerminated(code)
    return zmq.ZMQError(code)


def recv_many(socket: zmq.Socket[bytes], limit: int) -> list[list[bytes]]:
    _check_socket(socket)
    limit = index(limit)
    messages: list[list[bytes]] = []
    while len(messages) < limit:
        try:
            messages.append(_recv_message(socket))
        except zmq.Again:
            break
        except zmq.ZMQError:
            # What has been read must reach the caller; a lasting error meets him at the next call.
            if messages:
                break
            raise
    return messages


def send_many(socket: zmq.Socket[bytes], messages: Sequence[Sequence[bytes]]) -> list[tuple[int, int]]:
    _check_socket(socket)
    _check_messages(messages)
    refused = []
    for number, frames in enumerate(messages):
        if code := _send_message(socket, frames):
            refused.append((number, code))
    return refused


def send_some(socket: zmq.Socket[bytes], messages: Sequence[Sequence[bytes]]) -> int:
    _check_socket(socket)
    _check_messages(messages)
    for taken, frames in enumerate(messages):
        if _send_message(socket, frames):
            return taken
    return len(messages)


def _recv_message(socket: zmq.Socket[bytes]) -> list[bytes]:
    frames = [socket.recv(_DONTWAIT)]
    while socket.getsockopt(zmq.RCVMORE):
        frame = socket.recv(_DONTWAIT)
        if len(frames) <= FRAMES_MAX:
            frames.append(frame)
    return frames


def _send_message(socket: zmq.Socket[bytes], frames: Sequence[bytes]) -> int:
    """0, or the errno of the refusal."""
    last = len(frames) - 1
    refused = 0
    for position, frame in enumerate(frames):
        try:
            socket.send(frame, _MORE if position < last else _DONTWAIT)
        except zmq.ZMQError as error:
            if refused:
                return refused
            if error.errno not in _REFUSALS:
                raise
            refused = int(error.errno)
            if position == 0:
                return refused
            # Past the first frame this means that the peer vanished in the middle. libzmq takes back what it
            # has of the message and then swallows frames up to the message's end, so that end has to come:
            # without it the next message would be swallowed in its place.
    return refused


def _check_socket(socket: zmq.Socket[bytes]) -> None:
    if not isinstance(socket, zmq.Socket):
        raise TypeError(f"a zmq.Socket is needed, not {type(socket).__name__}")
    if socket.closed:
        raise error_for(errno.ENOTSOCK)


def _check_messages(messages: Sequence[Sequence[bytes]]) -> None:
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
