"""The pump in plain Python: the twin of `_pump.c`, for machines without a C compiler.

The same functions with the same results, some ten times slower. See `famulus.net.pump` for what they promise.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from operator import index

import zmq

from famulus.net.stream_python import FRAMES_MAX, check_messages
from famulus.wire import parcels

_REFUSALS = frozenset({errno.EAGAIN, errno.EHOSTUNREACH})
_DONTWAIT = int(zmq.DONTWAIT)  # plain integers: pyzmq's enums cost more than the calls they are for
_MORE = int(zmq.DONTWAIT | zmq.SNDMORE)


def error_for(code: int) -> zmq.ZMQError:
    """The exception that pyzmq itself would raise for this errno."""
    if code == zmq.ETERM:
        return zmq.ContextTerminated(code)
    return zmq.ZMQError(code)


def recv_many(socket: zmq.Socket[bytes], limit: int) -> list[list[bytes]]:
    return _recv(socket, limit, lambda message: [message])


def recv_parcels(socket: zmq.Socket[bytes], limit: int, senders: set[bytes] | None) -> list[list[bytes]]:
    _check_peers(senders, none=True)

    def unwrap(message: list[bytes]) -> list[list[bytes]]:
        before = message[:1] if senders is not None else []
        inside = parcels.read(message[-1]) if len(message) == len(before) + 1 else []
        if inside and senders is not None:
            senders.add(message[0])
        return [before + each for each in inside] or [message]

    return _recv(socket, limit, unwrap)


def _recv(
    socket: zmq.Socket[bytes], limit: int, unwrap: Callable[[list[bytes]], list[list[bytes]]]
) -> list[list[bytes]]:
    _check_socket(socket)
    limit = index(limit)
    messages: list[list[bytes]] = []
    while len(messages) < limit:
        try:
            messages += unwrap(_recv_message(socket))
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
    check_messages(messages)
    refused = []
    for number, frames in enumerate(messages):
        if code := _send_message(socket, frames):
            refused.append((number, code))
    return refused


def send_parcels(
    socket: zmq.Socket[bytes], messages: Sequence[Sequence[bytes]], receivers: set[bytes]
) -> list[tuple[int, int]]:
    _check_socket(socket)
    check_messages(messages)
    _check_peers(receivers)
    refused = []
    by_peer: dict[bytes, list[int]] = {}
    for number, message in enumerate(messages):
        by_peer.setdefault(message[0], []).append(number)
    for peer, numbers in by_peer.items():
        at = 0
        while at < len(numbers):
            rest = (messages[numbers[i]][1:] for i in range(at, len(numbers)))
            count = parcels.run_of(rest) if peer in receivers else 0
            together = numbers[at : at + max(1, count)]
            at += len(together)
            frames = messages[together[0]]
            if count:
                frames = [peer, parcels.write([messages[number][1:] for number in together])]
            if code := _send_message(socket, frames):
                refused += [(number, code) for number in together]
    return refused


def send_some(socket: zmq.Socket[bytes], messages: Sequence[Sequence[bytes]]) -> int:
    _check_socket(socket)
    check_messages(messages)
    for taken, frames in enumerate(messages):
        if _send_message(socket, frames):
            return taken
    return len(messages)


def send_some_parcels(socket: zmq.Socket[bytes], messages: Sequence[Sequence[bytes]]) -> int:
    _check_socket(socket)
    check_messages(messages)
    taken = 0
    while taken < len(messages):
        count = parcels.run_of(messages[i] for i in range(taken, len(messages)))
        frames = [parcels.write(messages[taken : taken + count])] if count else messages[taken]
        if _send_message(socket, frames):
            break
        taken += max(1, count)
    return taken


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


def _check_peers(peers: set[bytes] | None, *, none: bool = False) -> None:
    if type(peers) is not set and not (none and peers is None):
        raise TypeError(f"a set of peers is needed, not {type(peers).__name__}")
