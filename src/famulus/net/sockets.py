"""Every libzmq socket that we use, with the options whose defaults are wrong for us. Knows no protocol.

None of them is bound to a port: whoever may be a stranger connects to a `Listener`.

Why each option is what it is:

ROUTER_MANDATORY   without it a ROUTER drops in silence what it cannot deliver
LINGER 0           a closing process must not wait for peers that may be dead
IMMEDIATE          not for those outside: with it libzmq 4.3.5 aborts the whole process if a connection is lost
                   between two frames of a message that is being read. They send only while their `Link` is up instead.
                   For routers, whose messages have one frame: queue only for finished connections
MAXMSGSIZE         unlimited by default, also where news of other brokers is heard
HANDSHAKE_IVL      30 s by default: who takes connections and says nothing is no broker
TCP_KEEPALIVE      finds peers whose machine is gone, where the system's default takes two hours
HEARTBEAT_IVL      for links to other brokers: finds one that is there but does nothing
HWM                credit in the protocol is the flow control; these only bound what one peer can pile up
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import zmq

from famulus.errors import SettingsError

if TYPE_CHECKING:
    from famulus.wire.curve import CurveKey


class Keys(NamedTuple):
    """Of both ends of a connection."""

    own: CurveKey
    other: bytes


Socket = zmq.Socket[bytes]
Context = zmq.Context[Socket]

#: Letters between brokers are few, and the next heartbeat makes up for a lost one.
PEER_PIPE_MAX = 1000

#: Snapshots of one sender that may wait for a slow herald.
SNAPSHOTS_MAX = 4
#: Batches of the journal on their way to the scribe, at either end: a few seconds at full rate, about ten megabytes.
JOURNAL_PIPE_MAX = 200

#: For all sockets that connect to another broker.
_OUTSIDE: dict[int, int] = {
    zmq.RECONNECT_IVL: 50,
    zmq.RECONNECT_IVL_MAX: 2000,
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 30,
    zmq.TCP_KEEPALIVE_INTVL: 10,
    zmq.TCP_KEEPALIVE_CNT: 3,
}


def new_context() -> Context:
    context: Context = zmq.Context()
    # The default limit of 1023 counts our own sockets only; connections are bounded by file descriptors alone.
    return context


def outside_dealer(context: Context, keys: Keys | None = None) -> Socket:
    """What connects to a broker through libzmq: another broker, or one that joins."""
    socket = context.socket(zmq.DEALER)
    _seal(socket, keys)
    # What comes in was asked for: our own open tasks bound it.
    _set(socket, {zmq.LINGER: 0, zmq.HANDSHAKE_IVL: 5000, zmq.SNDHWM: 1000, zmq.RCVHWM: 0, **_OUTSIDE})
    _set(socket, {zmq.HEARTBEAT_IVL: 500, zmq.HEARTBEAT_TIMEOUT: 2000})
    return socket


def outside_sub(context: Context, message_bytes_max: int, keys: Keys | None = None) -> Socket:
    """Where a steward hears of another's edits."""
    socket = context.socket(zmq.SUB)
    _seal(socket, keys)
    _set(socket, {zmq.LINGER: 0, zmq.RCVHWM: PEER_PIPE_MAX, zmq.MAXMSGSIZE: message_bytes_max, **_OUTSIDE})
    return _hearing_all(socket)


def inside_router(context: Context, address: str) -> Socket:
    """What the routers of this broker connect to."""
    return _bound(_inside(context, zmq.ROUTER, {zmq.ROUTER_MANDATORY: 1}), address)


def inside_dealer(context: Context, identity: bytes) -> Socket:
    """What a router connects with, once it is part of a `Link`."""
    socket = _inside(context, zmq.DEALER, {zmq.IMMEDIATE: 1})
    socket.setsockopt(zmq.IDENTITY, identity)
    return socket


def inside_sub(context: Context, address: str) -> Socket:
    """Where announcements are heard."""
    return _bound(_hearing_all(_inside(context, zmq.SUB)), address)


def inside_pub_bound(context: Context, address: str) -> Socket:
    """Where one process tells many."""
    return _bound(_inside(context, zmq.PUB), address)


def inside_sub_connected(context: Context, address: str) -> Socket:
    """Where many processes hear that one."""
    return _connected(_hearing_all(_inside(context, zmq.SUB)), address)


def inside_pub(context: Context, address: str) -> Socket:
    """Where announcements are made."""
    return _connected(_inside(context, zmq.PUB), address)


def to_herald(context: Context, ipc: str, is_there: bool) -> Socket | None:
    """Where a process tells the herald, if there is one, what happened; some of it may wait, and more is refused."""
    return _inside_push(context, f"ipc://{ipc}/herald", SNAPSHOTS_MAX) if is_there else None


def to_scribe(context: Context, ipc: str, is_there: bool) -> Socket | None:
    """The same for the scribe."""
    return _inside_push(context, f"ipc://{ipc}/journal", JOURNAL_PIPE_MAX) if is_there else None


def _inside_push(context: Context, address: str, pipe_max: int) -> Socket:
    return _connected(_inside(context, zmq.PUSH, {zmq.SNDHWM: pipe_max}), address)


def inside_pull(context: Context, address: str, pipe_max: int) -> Socket:
    """Where the herald and the scribe hear it."""
    return _bound(_inside(context, zmq.PULL, {zmq.RCVHWM: pipe_max}), address)


def _inside(context: Context, kind: int, options: dict[int, int] | None = None) -> Socket:
    """A socket between the processes of one broker; the dispatcher's own bounds limit what is in it."""
    socket = context.socket(kind)
    _set(socket, {zmq.LINGER: 0, zmq.SNDHWM: 0, zmq.RCVHWM: 0, zmq.RECONNECT_IVL: 10, zmq.RECONNECT_IVL_MAX: 500})
    _set(socket, options or {})
    return socket


def _bound(socket: Socket, address: str) -> Socket:
    socket.bind(address)
    return socket


def _connected(socket: Socket, address: str) -> Socket:
    socket.connect(address)
    return socket


def _hearing_all(socket: Socket) -> Socket:
    socket.setsockopt(zmq.SUBSCRIBE, b"")
    return socket


def descriptor(socket: Socket) -> int:
    """The file descriptor that has news when the socket has; see `famulus.net.waiting` for what that means."""
    return int(socket.getsockopt(zmq.FD))


def connect(socket: Socket, where: str) -> None:
    try:
        socket.connect(where)
    except zmq.ZMQError as error:
        raise SettingsError(f"{where!r} is not an address such as tcp://10.0.0.7:7103 ({error})") from None


def _seal(socket: Socket, keys: Keys | None) -> None:
    """What it connects to has to have this key, and learns who we are."""
    if keys is not None:
        socket.setsockopt(zmq.CURVE_SECRETKEY, keys.own.secret)
        socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.own.public)
        socket.setsockopt(zmq.CURVE_SERVERKEY, keys.other)


def _set(socket: Socket, options: dict[int, int]) -> None:
    for option, value in options.items():
        socket.setsockopt(option, value)
