"""Moves batches of multipart messages through libzmq's sockets. Knows no protocol.

For use inside a broker, and between brokers: a client's task at its own broker does not pass through here.

    recv_many(socket, limit) -> list of messages, each a list of frames
        Up to `limit` whole messages; [] when nothing is there. Of a message with more than FRAMES_MAX frames
        the first FRAMES_MAX + 1 are kept: the caller sees that it is too long, and memory does not grow.

    send_many(socket, messages) -> list of (index, errno)
        Tries every message and names those refused: EAGAIN where it does not fit now, EHOSTUNREACH where a
        ROUTER with ROUTER_MANDATORY does not know the peer. Nothing of a refused message leaves.

    send_some(socket, messages) -> how many were taken
        In order, up to the first that does not fit now. For DEALER and PUSH.

None of them ever blocks or raises for EAGAIN. Anything but a list or tuple of lists or tuples of bytes raises
TypeError, and a message without frames ValueError, before anything leaves. Other errors of libzmq (a
terminated context, a closed socket) raise zmq.ZMQError.

Reading or writing may swallow the readiness of the socket's file descriptor. Whoever waits on that descriptor,
and not with zmq's own poller, must call recv_many until it gives fewer than `limit` before waiting again,
also after sending.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from operator import index

import zmq

from famulus.net.stream_python import FRAMES_MAX, check_messages

_REFUSALS = frozenset({errno.EAGAIN, errno.EHOSTUNREACH})
# Flags are plain integers, since arithmetic with pyzmq's enums costs more than the calls; options are not, since pyzmq
# would look up their enums.
_DONTWAIT = int(zmq.DONTWAIT)
_MORE = int(zmq.DONTWAIT | zmq.SNDMORE)
_POLLIN = int(zmq.POLLIN)
_RCVMORE = zmq.RCVMORE
_EVENTS = zmq.EVENTS


def recv_many(socket: zmq.Socket[bytes], limit: int) -> list[list[bytes]]:
    _check_socket(socket)
    limit = index(limit)
    messages: list[list[bytes]] = []
    try:
        # Asking costs a quarter of the exception that says that there is nothing.
        while len(messages) < limit and int(socket.getsockopt(_EVENTS)) & _POLLIN:
            messages.append(_recv_message(socket))
    except zmq.ZMQError:
        # What has been read must reach the caller; a lasting error is raised at the next call.
        if not messages:
            raise
    return messages


def send_many(socket: zmq.Socket[bytes], messages: Sequence[Sequence[bytes]]) -> list[tuple[int, int]]:
    _check_socket(socket)
    check_messages(messages)
    return [(number, code) for number, frames in enumerate(messages) if (code := _send_message(socket, frames))]


def send_some(socket: zmq.Socket[bytes], messages: Sequence[Sequence[bytes]]) -> int:
    _check_socket(socket)
    check_messages(messages)
    for taken, frames in enumerate(messages):
        if _send_message(socket, frames):
            return taken
    return len(messages)


def libzmq() -> tuple[str, bool]:
    """The version of libzmq, and whether it can do CURVE."""
    return zmq.zmq_version(), zmq.has("curve")


def _recv_message(socket: zmq.Socket[bytes]) -> list[bytes]:
    frames = [socket.recv(_DONTWAIT)]
    while socket.getsockopt(_RCVMORE):
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
        raise zmq.ZMQError(errno.ENOTSOCK)
