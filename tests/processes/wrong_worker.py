"""A worker in plain pyzmq for `famulus conform`, written from the protocol's page; a wrong one, if it is told how.

python tests/processes/wrong_worker.py [FAULT]
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from typing import Any

import zmq

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""
#: Before a heartbeat is granted.
FIRST_S = 1.0


class Worker:
    def __init__(self, serve: dict[str, Any]) -> None:
        self.serve = serve
        self.context = zmq.Context()
        self.poller = zmq.Poller()
        self.poller.register(0, zmq.POLLIN)
        self.calls = 0
        self.tickets: dict[int, bytes] = {}
        self.rest = b""
        self.pause_s = 0.1
        self.is_stopping = False
        self.open()

    # -- the connection -------------------------------------------------------------------------------------------

    def open(self) -> None:
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.monitor = self.socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        self.socket.connect(self.serve["address"])
        for each in (self.socket, self.monitor):
            self.poller.register(each, zmq.POLLIN)
        self.is_known = self.is_up = False
        self.heartbeat_s = FIRST_S
        self.heard_at = time.monotonic()
        self.ping_at = self.connect_at = float("inf")

    def reopen(self) -> None:
        for each in (self.socket, self.monitor):
            self.poller.unregister(each)
        self.socket.disable_monitor()
        self.socket.close()
        if FAULT != "keeps-tickets":
            self.tickets.clear()
        self.open()

    def connect(self) -> None:
        if FAULT != "keeps-tickets":
            self.tickets.clear()
        slots = self.serve["slots"]
        wanted = {"services": self.serve["services"], "slots": str(slots) if FAULT == "text" else slots}
        self.tell("CONNECT", identity=self.serve["identity"], **wanted)
        self.heard_at = time.monotonic()
        self.heartbeat_s, self.connect_at = FIRST_S, float("inf")
        self.is_known = False
        if FAULT == "pings-first":
            self.tell("PING")

    def tell(self, request: str, kind: str = "REQUEST", envelope: bytes = b"", body: bytes = b"", **more: Any) -> None:
        self.socket.send_multipart([envelope, json.dumps({"request": request, "type": kind, **more}).encode(), body])
        if self.is_known:
            self.ping_at = time.monotonic() + self.heartbeat_s * 0.9

    # -- its loop -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        while True:
            due = min(self.ping_at, self.connect_at, self.heard_at + 3 * self.heartbeat_s)
            ready = dict(self.poller.poll(max(0, int((due - time.monotonic()) * 1000) + 1)))
            if 0 in ready and not self.obey():
                return
            if self.monitor in ready:
                self.follow()
            while self.socket.poll(0):
                if self.hear(self.socket.recv_multipart()):
                    return
            self.tick(time.monotonic())

    def tick(self, now: float) -> None:
        if self.is_up and now >= self.heard_at + 3 * self.heartbeat_s and FAULT != "deaf":
            self.reopen()
        elif now >= self.connect_at:
            self.connect()
        elif self.is_known and now >= self.ping_at:
            if FAULT == "busy" and self.tickets:
                self.ping_at = now + self.heartbeat_s
            else:
                self.tell("PING")
        if not self.is_up:
            self.heard_at = now  # libzmq connects again by itself

    def follow(self) -> None:
        while self.monitor.poll(0):
            event = int.from_bytes(self.monitor.recv_multipart()[0][:2], sys.byteorder)
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.is_up = True
                self.connect()
            elif self.is_up or FAULT == "hot":
                self.reopen()
                return

    def hear(self, frames: list[bytes]) -> bool:
        """True if its session is over, as it wanted."""
        self.heard_at = time.monotonic()
        if len(frames) != 3:
            return False
        envelope, header, body = frames
        fields = read(header)
        match fields.get("request"), fields.get("type"):
            case "CONFIG", "RESPONSE" if isinstance(fields.get("heartbeat_ms"), int):
                self.heartbeat_s, self.pause_s = fields["heartbeat_ms"] / 1000, 0.1
                self.is_known = True
                self.tell("PING")
            case "PING", "REQUEST":
                self.tell("PING")
            case "TASK", "REQUEST" if isinstance(fields.get("service"), str):
                self.take(envelope, fields["service"], body)
            case "CANCEL", "REQUEST" if FAULT == "rejects" and body in self.tickets.values():
                self.answer(body, outcome="REJECTED", reason="cancelled: never mind")
            case "ERROR", "RESPONSE":
                self.refused(str(fields.get("reason", "")))
            case "DISCONNECT", "RESPONSE":
                return self.is_stopping
        return False

    def refused(self, reason: str) -> None:
        if reason.startswith("not_connected"):
            self.connect()
        elif not self.is_known:
            self.pause_s = 0.0 if FAULT == "hammers" else min(2 * self.pause_s, 2.0)
            self.connect_at = time.monotonic() + self.pause_s * random.uniform(0.5, 1)

    # -- tasks ----------------------------------------------------------------------------------------------------

    def take(self, ticket: bytes, service: str, body: bytes) -> None:
        if service not in self.serve["services"]:
            if FAULT != "keeps-slots":
                self.answer(ticket, outcome="ERROR", reason="no_service: not here")
            return
        self.calls += 1
        self.tickets[self.calls] = ticket
        say(task=self.calls, service=service, body=body.hex())

    def answer(self, ticket: bytes, body: bytes = b"", **more: Any) -> None:
        self.tell("TASK", "RESPONSE", ticket, body, **more)

    def obey(self) -> bool:
        chunk = os.read(0, 1 << 24)
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        for line in map(json.loads, lines):
            if line["do"] == "stop":
                if FAULT == "walks-out":
                    return False
                self.is_stopping = True
                self.tell("DISCONNECT")
                continue
            ticket = self.tickets.pop(line["task"], None)
            if ticket is None:
                continue
            if line["do"] == "answer":
                self.answer(ticket, bytes.fromhex(line["body"]))
                if FAULT == "twice":
                    self.answer(ticket, bytes.fromhex(line["body"]))
            else:
                self.answer(ticket, outcome="ERROR", reason=line["reason"])
        return bool(chunk)


def read(header: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(header)
    except (ValueError, RecursionError):
        if FAULT == "fragile":
            raise
        return {}
    return fields if isinstance(fields, dict) else {}


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def first_line() -> bytes:
    """Nothing beyond it is read: what follows is read as it comes."""
    with open(0, "rb", buffering=0, closefd=False) as told:
        return told.readline()


if __name__ == "__main__":
    say(offers=["drain", "several"])
    Worker(json.loads(first_line())).run()
    sys.stdout.flush()
    # Not by the interpreter, which would wait for the context.
    os._exit(0)
