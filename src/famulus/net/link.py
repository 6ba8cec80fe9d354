"""A connection to a broker that knows whether it is up: a DEALER and the monitor of its socket. Knows no protocol.

For processes of brokers, among themselves; clients and workers have a `Line`. libzmq connects again by itself, with
back-off. What its user must know is when: what was on its way when a link went down may or may not have arrived.
"""

from __future__ import annotations

import struct
from typing import Final

import zmq

from famulus.errors import SettingsError
from famulus.net import sockets
from famulus.net.line import Change
from famulus.net.pump import recv_many, send_some

_EVENT: Final = struct.Struct("=HI")
#: As in the dispatcher: while we work through a batch, whoever gets the results waits.
BATCH_MAX: Final = 128


class Link:
    def __init__(
        self,
        context: sockets.Context,
        address: str,
        socket: sockets.Socket | None = None,
        keys: sockets.Keys | None = None,
    ) -> None:
        """`keys`: if the other side wants some."""
        self.address = address
        #: The other side's; empty if it wants none.
        self.key = keys.other if keys is not None else b""
        self.socket = socket or sockets.outside_dealer(context, keys)
        self.monitor: sockets.Socket = self.socket.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        )
        self.up = self.was_up = False
        try:
            self.socket.connect(address)
        except zmq.ZMQError as error:
            self.close()
            raise SettingsError(f"{address!r} is not an address such as tcp://127.0.0.1:7100 ({error})") from None

    def changes(self) -> list[Change]:
        """What happened to the connection since the last call, in order."""
        changes = []
        for event, _ in recv_many(self.monitor, BATCH_MAX):
            up = _EVENT.unpack(event)[0] == zmq.EVENT_HANDSHAKE_SUCCEEDED
            if up != self.up:
                self.up = up
                self.was_up = self.was_up or up
                changes.append(Change.UP if up else Change.DOWN)
        return changes

    def recv(self, limit: int = BATCH_MAX) -> list[list[bytes]]:
        """What came: up to `limit` messages."""
        return recv_many(self.socket, limit)

    def send(self, messages: list[list[bytes]]) -> int:
        """How many were taken, from the first on."""
        return send_some(self.socket, messages)

    def close(self) -> None:
        if not self.socket.closed:
            self.socket.disable_monitor()
            self.monitor.close(0)
            self.socket.close(0)
