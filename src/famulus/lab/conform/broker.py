"""A broker that does what a rule wants: a plain ROUTER socket, which can go away and come back at the same address.

By itself it answers what every broker answers at once (PING, NEEDBROKER, CHECKCONFIG), unless it is told to be mute.
What it hears is read as a broker reads it; a message that breaks the protocol is noted, and not heard.
"""

from __future__ import annotations

import errno
import json
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import zmq

from famulus.errors import ProtocolError
from famulus.wire import headers, limits, parcels

Frames = list[bytes]
Bound = TypeVar("Bound")

#: How long the address may take to be free again.
FREE_WITHIN_S = 5.0
#: What each role may say: the document has it in the headings of the messages.
SAYS = {
    "client": {"TASK REQUEST", "CANCEL REQUEST", "CREDIT REQUEST", "NEEDBROKER REQUEST"},
    "worker": {
        "CONNECT REQUEST",
        "PING REQUEST",
        "CHECKCONFIG REQUEST",
        "DISCONNECT REQUEST",
        "NEEDBROKER REQUEST",
        "TASK RESPONSE",
        "PART RESPONSE",
    },
}
#: Those that stand byte for byte in the document.
FIXED = {"PART RESPONSE": headers.PART, "CREDIT REQUEST": headers.CREDIT}


@dataclass(frozen=True, slots=True)
class Heard:
    """One message from the program."""

    #: The connection that it came over.
    peer: bytes
    envelope: bytes
    header: bytes
    body: bytes
    #: On the clock of `time.monotonic`.
    at: float = field(default_factory=time.monotonic)

    @property
    def fields(self) -> dict[str, Any]:
        return headers.read_valid(self.header)

    @property
    def kind(self) -> str:
        fields = self.fields
        return f"{fields['request']} {fields['type']}"


class ScriptedBroker:
    def __init__(self, role: str) -> None:
        self._says = SAYS[role]
        self._context = zmq.Context()
        self.socket = self._opened("tcp://127.0.0.1:*")
        self.address = self.socket.getsockopt_string(zmq.LAST_ENDPOINT)
        #: What was heard and nobody has asked for yet; and all that was ever heard.
        self.inbox: list[Heard] = []
        self.all: list[Heard] = []
        #: Rules that were broken by a message of their own, with what was seen.
        self.breaches: dict[str, str] = {}
        #: Answers nothing by itself.
        self.is_mute = False
        #: The version and the digest of its config, as every PONG says.
        self.digest = ""

    def _opened(self, address: str) -> zmq.Socket[bytes]:
        opened = self._context.socket(zmq.ROUTER)
        opened.linger = 0
        # Otherwise a message that is too much for its connection would be dropped.
        opened.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # A routing id that somebody chose is ignored; with this, a connection at least replaces the former one.
        opened.setsockopt(zmq.ROUTER_HANDOVER, 1)
        _when_free(lambda: opened.bind(address))
        return opened

    # -- hearing --------------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Take in all that has come."""
        while not self.socket.closed:
            try:
                peer, *frames = self.socket.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return
            for message in self._opened_parcel(frames):
                self._hear(peer, message)

    def _opened_parcel(self, frames: Frames) -> list[Frames]:
        if len(frames) != 1:
            return [frames]
        return parcels.read(frames[0]) or [frames]

    def _hear(self, peer: bytes, frames: Frames) -> None:
        if len(frames) != 3:
            self._note("frames", f"a message of {len(frames)} frames: {_shown(frames)}")
            return
        envelope, header, body = frames
        if len(envelope) > limits.ENVELOPE_BYTES_MAX:
            self._note("frames", f"an envelope of {len(envelope)} bytes")
            return
        try:
            headers.read(header)
        except ProtocolError as error:
            self._note("headers", f"{header[:300]!r}: {error}")
            return
        heard = Heard(peer, envelope, header, body)
        if heard.kind not in self._says:
            self._note("own-messages", f"{heard.kind}, which is not for its side to say: {header[:300]!r}")
            return
        if header != FIXED.get(heard.kind, header):
            self._note("headers", f"{header[:300]!r}, which has to be {FIXED[heard.kind]!r} byte for byte")
            return
        self.all.append(heard)
        if not self._answers(heard):
            self.inbox.append(heard)

    def _note(self, rule: str, seen: str) -> None:
        self.breaches.setdefault(rule, seen)

    def _answers(self, heard: Heard) -> bool:
        """What any broker would do. True if no rule has to hear of it."""
        if self.is_mute:
            return heard.kind in ("PING REQUEST", "NEEDBROKER REQUEST", "CHECKCONFIG REQUEST")
        match heard.kind:
            case "PING REQUEST":
                self.tell(heard.peer, heard.envelope, "PONG", "RESPONSE", digest=self.digest)
            case "NEEDBROKER REQUEST":
                ours = {"identity": "kit", "frontend": self.address, "backend": self.address}
                told = {"brokers": [{**ours, "family": "default", "load": 0.0}]}
                self.tell(heard.peer, heard.envelope, "NEEDBROKER", "RESPONSE", json.dumps(told).encode())
            case "CHECKCONFIG REQUEST":
                fields: dict[str, Any] = {"identity": heard.fields["identity"], "heartbeat_ms": 1000}
                self.tell(heard.peer, heard.envelope, "CONFIG", "RESPONSE", digest=self.digest, current=True, **fields)
            case _:
                return False
        return True

    def take(self, wanted: Callable[[Heard], bool]) -> Heard | None:
        """The first one of these that nobody has taken yet."""
        for heard in self.inbox:
            if wanted(heard):
                self.inbox.remove(heard)
                return heard
        return None

    # -- telling --------------------------------------------------------------------------------------------------

    def tell(self, peer: bytes, envelope: bytes, request: str, kind: str, body: bytes = b"", **fields: Any) -> None:
        header = {"request": request, "type": kind, **fields}
        self.send(peer, [envelope, json.dumps(header, separators=(",", ":")).encode(), body])

    def send(self, peer: bytes, frames: Frames) -> None:
        """Whatever it is. If the connection is gone, it is lost, as it would be for any broker."""
        try:
            self.socket.send_multipart([peer, *frames])
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise

    # -- the connection -------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """All connections are closed, and nobody listens any more."""
        self.socket.close(linger=0)

    def leave_in_order(self) -> None:
        """The same, once what was said has gone out."""
        self.socket.close(linger=1000)

    def turn_away(self, seconds: float) -> int:
        """After `leave`: close each connection that is made in this time, and count them."""
        host, _, port = self.address.removeprefix("tcp://").rpartition(":")
        until, attempts = time.monotonic() + seconds, 0
        with _when_free(lambda: socket.create_server((host, int(port)))) as server:
            while (left := until - time.monotonic()) > 0:
                server.settimeout(left)
                with suppress(TimeoutError):
                    server.accept()[0].close()
                    attempts += 1
        return attempts

    def come_back(self) -> None:
        """At the same address, without any memory of what was."""
        self.socket = self._opened(self.address)
        self.inbox.clear()

    def close(self) -> None:
        self._context.destroy(linger=0)


def _when_free(bind: Callable[[], Bound]) -> Bound:
    """libzmq closes a socket in a thread of its own, so the address is taken for a moment after that."""
    until = time.monotonic() + FREE_WITHIN_S
    while True:
        try:
            return bind()
        except (OSError, zmq.ZMQError) as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > until:
                raise
        time.sleep(0.005)


def _shown(frames: Frames) -> str:
    return ", ".join(repr(frame[:60]) for frame in frames)
