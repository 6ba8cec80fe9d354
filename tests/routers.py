"""What a ROUTER of libzmq hears, where a test plays the broker."""

from __future__ import annotations

import zmq

from famulus.wire import parcels


def recv_opened(socket: zmq.Socket[bytes]) -> list[list[bytes]]:
    """The messages that come next, each behind its peer: one, or those of a parcel."""
    peer, *frames = socket.recv_multipart()
    return [[peer, *each] for each in (parcels.read(frames[0]) if len(frames) == 1 else [frames])]
