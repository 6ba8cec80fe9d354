"""Moves batches of multipart messages through sockets: the native pump or its Python twin. Knows no protocol.

    recv_many(socket, limit) -> list of messages, each a list of frames
        Up to `limit` whole messages; [] when nothing is there. Of a message with more than FRAMES_MAX frames
        the first FRAMES_MAX + 1 are kept: the caller sees that it is too long, and memory does not grow.

    send_many(socket, messages) -> list of (index, errno)
        Tries every message and names those refused: EAGAIN where it does not fit now, EHOSTUNREACH where a
        ROUTER with ROUTER_MANDATORY does not know the peer. Nothing of a refused message leaves.

    send_some(socket, messages) -> how many were taken
        In order, up to the first that does not fit now. For DEALER and PUSH.

    recv_parcels(socket, limit, senders), send_parcels(socket, messages, receivers), send_some_parcels(socket, messages)
        The same for messages of three frames (on a ROUTER, behind the peer), several of which may travel in one:
        a parcel (see `famulus.wire.parcels`). Who sends parcels understands them. So what a ROUTER reads adds to the
        set `senders`, and only those in `receivers` are sent any; a DEALER (`senders` is None) always may. The
        limit may be exceeded by what is in the last parcel.

None of them ever blocks or raises for EAGAIN. Anything but a list or tuple of lists or tuples of bytes raises
TypeError, and a message without frames ValueError, before anything leaves. Other errors of libzmq (a
terminated context, a closed socket) raise zmq.ZMQError.

Reading or writing may swallow the readiness of the socket's file descriptor. Who waits on that descriptor,
and not with zmq's own poller, must call recv_many until it gives fewer than `limit` before waiting again,
also after sending.

Which of the twins serves is for `famulus.net.native` to say, which also has what needs no libzmq.
"""

from __future__ import annotations

import zmq

from famulus.net import pump_python
from famulus.net.native import why_not_native
from famulus.net.stream_python import FRAMES_MAX

__all__ = [
    "FRAMES_MAX",
    "NATIVE",
    "WHY_NOT_NATIVE",
    "libzmq",
    "recv_many",
    "recv_parcels",
    "send_many",
    "send_parcels",
    "send_some",
    "send_some_parcels",
]


def _bind() -> None:
    """Import the native pump and bind it to pyzmq's libzmq; ImportError says why that cannot be."""
    from zmq.backend.cython import _zmq

    import famulus.net._pump as native

    native.bind(_zmq.__file__, zmq.Socket, pump_python.error_for)


#: Why the Python twin serves; empty where the native pump does.
WHY_NOT_NATIVE = why_not_native(_bind)
NATIVE = not WHY_NOT_NATIVE

if NATIVE:
    from famulus.net._pump import recv_many, recv_parcels, send_many, send_parcels, send_some, send_some_parcels
else:
    from famulus.net.pump_python import recv_many, recv_parcels, send_many, send_parcels, send_some, send_some_parcels


def libzmq() -> tuple[str, bool]:
    """The version of the libzmq under the pump, and whether it can do CURVE."""
    return zmq.zmq_version(), zmq.has("curve")
