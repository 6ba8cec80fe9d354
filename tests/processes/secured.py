"""A network whose brokers want keys from everybody, with passes for some; and strangers who speak for themselves."""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.processes.conftest import HERE, WorkerProcess, wait_until
from tests.processes.networks import Member, Network
from tests.processes.test_herald import address_of, ask

from famulus import Client
from famulus.net.passes import PassBroker, PassFile, write_pass
from famulus.wire import curve, zmtp
from famulus.wire.curve import CurveKey, Seal

#: Nobody waits for this long where all is well: what is heard, or the end, comes sooner.
SILENCE_S = 20.0


class Secured:
    """b1, and whoever joins it: nobody gets in without a key, not even on this machine."""

    def __init__(self, path: Path, *others: str, flags: tuple[str, ...] = (), ulimit: str = "") -> None:
        self.path = path
        self.network = Network(path)
        self.keys: dict[str, CurveKey] = {}
        self.b1 = self.network.found("b1", *flags, ulimit=ulimit)
        for other in others:
            self.network.join(other, flags=flags)
        if others:
            self.network.wait_until_in_step(20)
        self._workers: list[WorkerProcess] = []
        self._lines: list[SealedLine] = []
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        """Some get passes, and then everybody needs one."""
        self.admit("desk")
        self.admit("shop", call=["echo"])
        self.admit("gpu", serve=["echo", "spare"])
        self.admit("rival", serve=["spare"])
        # From now on only a connection with a key is heard, which `cli` has: that of the desk.
        self.b1.admin.put("family/main", {"keys": "all"})
        for member in self.network.members.values():
            wait_until(lambda member=member: not is_let_in(member.frontend), 20, "a plain one sent away")  # type: ignore[misc]

    def admit(self, name: str, **fields: Any) -> Path:
        """Make it a principal, and write its pass, before everybody needs a key."""
        key = self.keys[name] = CurveKey(os.urandom(32))
        value = {"public_keys": [key.public.hex()], "families": ["main"], **fields}
        self.b1.admin.put(f"principal/{name}", value)
        for member in self.network.members.values():
            wait_until(lambda member=member: member.admin.value(f"principal/{name}") == value, 20, name)  # type: ignore[misc]
        return self.write_pass(name, key)

    def write_pass(self, name: str, key: CurveKey, file: str = "") -> Path:
        path = self.pass_of(file or name)
        brokers = [
            PassBroker(member.frontend, member.backend, self.public_key(member).hex(), identity)
            for identity, member in self.network.members.items()
        ]
        write_pass(path, PassFile(1, "a network", name, brokers, key.secret.hex()))
        return path

    def pass_of(self, name: str) -> Path:
        return self.path / f"{name}.pass"

    def public_key(self, member: Member) -> bytes:
        from famulus.broker.keys import BrokerKey

        return BrokerKey.load(member.path / "broker.key").curve_key().public

    def cli(self, *words: str, code: int = 0, at: str = "b1", **options: Any) -> str:
        """An admin with the pass of the desk."""
        os.environ["FAMULUS_PASS"] = str(self.pass_of("desk"))
        try:
            return self.network[at].cli(*words, code=code, **options).stdout
        finally:
            del os.environ["FAMULUS_PASS"]

    def client(self, name: str = "shop", at: str = "b1") -> Client:
        return Client(self.network[at].frontend, pass_file=self.pass_of(name), timeout=20.0)

    def worker(self, name: str = "gpu", *services: str, at: str = "b1") -> WorkerProcess:
        env = {"FAMULUS_PASS": str(self.pass_of(name))}
        script = str(HERE / "echo_worker.py")
        worker = WorkerProcess(script, self.network[at].backend, "50", *(services or ("echo",)), env=env)
        self._workers.append(worker)
        return worker

    def line(self, name: str, *, at: str = "b1", port: str = "frontend") -> SealedLine:
        """A connection that the test drives by hand, with this key."""
        member = self.network[at]
        self._lines.append(SealedLine(getattr(member, port), self.keys[name], self.public_key(member)))
        return self._lines[-1]

    def refused(self, at: str = "b1") -> Counter[tuple[str, str, str]]:
        """How often, by port, reason, and whose it was: a name or a key. Takes an HTTP port."""
        _, told = ask(address_of(self.network[at].broker), "/api/v1/status")
        counted: Counter[tuple[str, str, str]] = Counter()
        for each in told.get("refusals", ()):
            counted[each["port"], each["why"], each["principal"] or each["key"]] += each["times"]
        return counted

    def close(self) -> None:
        for line in self._lines:
            line.socket.close()
        for worker in self._workers:
            worker.close()
        self.network.close()


class Refused(Exception):
    """The broker has closed the connection."""


class SealedLine:
    """A client's side of a connection with keys, whose bytes a test can change on their way."""

    def __init__(self, address: str, own: CurveKey, server: bytes, kind: bytes = b"DEALER") -> None:
        self.socket = connect(address)
        try:
            self.seal = self._open(own, server, kind)
        except (OSError, Refused):
            self.socket.close()
            raise Refused from None
        except zmtp.Foreign as error:
            self.socket.close()
            raise AssertionError(f"it is told more than that it may not come: {error}") from None

    def _open(self, own: CurveKey, server: bytes, kind: bytes) -> Seal:
        steps = curve.client_opening(kind, own, server, os.urandom)
        said, wanted = next(steps)
        while True:
            try:
                self.socket.sendall(said)
                said, wanted = steps.send(self.read(wanted))
            except StopIteration as over:
                seal: Seal = over.value
                return seal

    def read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                chunk = self.socket.recv(count - len(data))
            except ConnectionError:
                chunk = b""
            if not chunk:
                raise Refused
            data += chunk
        return data

    def sealed(self, *frames: bytes) -> bytes:
        """A message as it would be sent, and its numbers used up."""
        last = len(frames) - 1
        return b"".join(
            _framed(self.seal.close(frame, curve.MORE if place < last else 0)) for place, frame in enumerate(frames)
        )

    def send(self, *frames: bytes) -> None:
        self.socket.sendall(self.sealed(*frames))

    def is_closed(self) -> bool:
        """Whether nothing more comes than the end; anything that comes would be an answer."""
        return is_sent_away(self.socket)


def _framed(content: bytes) -> bytes:
    return (bytes([0, len(content)]) if len(content) < 256 else bytes([2]) + len(content).to_bytes(8, "big")) + content


def connect(address: str) -> socket.socket:
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    connected = socket.create_connection((host, int(port)), 10)
    connected.settimeout(SILENCE_S)
    return connected


def is_sent_away(connected: socket.socket, greeting: int = 0) -> bool:
    """Whether it is told nothing but perhaps a greeting of that length, and the connection ends."""
    heard = b""
    with connected:
        while True:
            try:
                chunk = connected.recv(65536)
            except TimeoutError:
                return False
            except ConnectionError:
                chunk = b""
            if not chunk:
                return True
            heard += chunk
            if len(heard) > greeting:
                return False


def is_let_in(address: str) -> bool:
    """Whether somebody without a key is."""
    connected = connect(address)
    connected.sendall(zmtp.opening(b"DEALER"))
    return not is_sent_away(connected, 64)


def goes_on(client: Client, service: str = "echo", times: int = 50) -> None:
    """Its tasks go well."""
    started = time.monotonic()
    assert list(client.map(service, [b"x"] * times)) == [b"x"] * times
    assert time.monotonic() - started < 60
