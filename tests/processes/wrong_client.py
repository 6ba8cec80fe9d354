"""A client in plain pyzmq for `famulus conform`, written from the protocol's page; a wrong one, if it is told how.

python tests/processes/wrong_client.py [FAULT]
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import zmq

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""
#: How much longer than its time-out a task is waited for.
GRACE_S = 0.0 if FAULT == "no-patience" else 0.5


class Client:
    def __init__(self, address: str) -> None:
        self.address = address
        self.context = zmq.Context()
        self.poller = zmq.Poller()
        self.poller.register(0, zmq.POLLIN)
        self.number = 0
        #: By envelope: the id for the kit, the deadline, and the message until it is sent.
        self.open: dict[bytes, tuple[str, float, list[bytes]]] = {}
        self.told: dict[bytes, str] = {}
        self.rest = b""
        self.connect()

    def connect(self) -> None:
        self.is_up = False
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.monitor = self.socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        self.socket.connect(self.address)
        for each in (self.socket, self.monitor):
            self.poller.register(each, zmq.POLLIN)

    def reconnect(self) -> None:
        """Over a new socket: what the old one has queued must not be sent any more."""
        for each in (self.socket, self.monitor):
            self.poller.unregister(each)
        self.socket.disable_monitor()
        self.socket.close()
        self.connect()

    def run(self) -> None:
        while True:
            due = min((deadline for _, deadline, _ in self.open.values()), default=time.monotonic() + 60)
            ready = dict(self.poller.poll(max(0, int((due - time.monotonic()) * 1000) + 1)))
            if 0 in ready and not self.obey():
                return
            # What came before the connection was lost counts.
            while self.socket.poll(0):
                self.hear(self.socket.recv_multipart())
            if self.monitor in ready:
                self.follow()
            self.send()
            self.expire()

    def obey(self) -> bool:
        chunk = os.read(0, 1 << 24)
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        for line in map(json.loads, lines):
            if line["do"] == "stop":
                return False
            self.ask(line)
        return bool(chunk)

    def ask(self, line: dict[str, Any]) -> None:
        self.number += FAULT != "one-envelope"
        envelope = self.number.to_bytes(8, "big")
        timeout_ms = line["timeout_ms"] / 1.0 if FAULT == "float" else line["timeout_ms"]
        header = {"request": "TASK", "type": "REQUEST", "service": line["service"], "timeout_ms": timeout_ms}
        message = [envelope, json.dumps(header).encode(), bytes.fromhex(line["body"])]
        patience_s = (line["timeout_ms"] / 1000 + GRACE_S) * (0.2 if FAULT == "impatient" else 1)
        self.open[envelope] = line["id"], time.monotonic() + patience_s, message

    def send(self) -> None:
        for envelope, (asked, deadline, message) in self.open.items():
            if message and (self.is_up or FAULT == "queues"):
                self.socket.send_multipart(message[1:] if FAULT == "two-frames" else message)
                self.open[envelope] = asked, deadline, message if FAULT == "sends-again" else []
        if FAULT == "sends-again" and self.open and self.is_up:
            self.is_up = False  # until the next connection

    def hear(self, frames: list[bytes]) -> None:
        if len(frames) != 3:
            assert FAULT != "one-shape", frames
            return
        envelope, header, body = frames
        fields = read(header)
        if fields.get("request") == "DISCONNECT":
            self.lose("UNKNOWN" if FAULT == "doubts" else "REJECTED")
        elif envelope in self.open:
            self.end(envelope, *outcome_of(fields), body)
        elif FAULT == "tells-twice" and envelope in self.told:
            tell(id=self.told[envelope], outcome="OK", body=body.hex())

    def end(self, envelope: bytes, outcome: str, reason: str, body: bytes = b"") -> None:
        asked = self.told[envelope] = self.open.pop(envelope)[0]
        tell(id=asked, outcome=outcome, reason=reason, body=body.hex())

    def lose(self, outcome: str) -> None:
        for envelope, (_, _, message) in list(self.open.items()):
            if not message:
                self.end(envelope, outcome, "broker_lost: the connection was lost")

    def follow(self) -> None:
        while self.monitor.poll(0):
            event = int.from_bytes(self.monitor.recv_multipart()[0][:2], sys.byteorder)
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.is_up = True
            elif FAULT == "hot" or (self.is_up and FAULT != "queues"):
                self.lose("UNKNOWN")
                self.reconnect()
                return

    def expire(self) -> None:
        now = time.monotonic()
        for envelope, (_, deadline, message) in list(self.open.items()):
            if deadline <= now:
                outcome = "REJECTED" if message else "UNKNOWN"
                self.end(envelope, outcome, "expired: no answer within the time-out")


def read(header: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(header)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def outcome_of(fields: dict[str, Any]) -> tuple[str, str]:
    reason = str(fields.get("reason", ""))
    if fields.get("request") == "ERROR":
        return ("UNKNOWN" if FAULT == "error-is-unknown" else "REJECTED"), reason
    if fields.get("outcome") in ("OK", "ERROR", "REJECTED", "UNKNOWN"):
        return fields["outcome"], reason
    return ("OK" if FAULT == "trusts" else "UNKNOWN"), "bad_header: the answer cannot be read"


def tell(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def first_line() -> bytes:
    """Nothing beyond it is read: what follows is read as it comes."""
    with open(0, "rb", buffering=0, closefd=False) as told:
        return told.readline()


if __name__ == "__main__":
    tell(offers=["several"])
    Client(json.loads(first_line())["address"]).run()
    # Not by the interpreter, which would wait for the context.
    sys.stdout.flush()
    os._exit(0)
