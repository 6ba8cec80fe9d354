"""Networks of real brokers, each on a machine of its own where that can be, and somebody who asks each of them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import zmq
from tests.processes import warm
from tests.processes.conftest import BrokerProcess, Process, Raw, alive, wait_until
from tests.processes.lan import Context, Lan, Loopback

from famulus.broker import passwords
from famulus.broker.founding import found
from famulus.core.config.schema import Keys

PASSWORD = "a password of these tests"
#: Within which an edit is everywhere, by beats alone.
STEP_S = 3.0
FLAGS = ("--routers", "1")
#: Where admins are heard on the machine of a broker that listens elsewhere.
ADMIN_PORT = "tcp://127.0.0.1:7105"


class Admin:
    """Somebody who asks one broker, with the right password unless told otherwise."""

    def __init__(self, context: Context, frontend: str) -> None:
        self._context = context
        self.frontend = frontend

    def ask(self, command: str, *, password: str = PASSWORD, **arguments: Any) -> tuple[str, Any]:
        """The reason, empty if it went well, and the body."""
        connection = Raw(self._context, zmq.DEALER, self.frontend)
        try:
            body = json.dumps({**arguments, "password": password}).encode()
            connection.tell("MANAGE", envelope=b"e", body=body, username="admin", command=command)
            envelope, header, answer = connection.recv(25)
        finally:
            connection.socket.close(0)
        assert envelope == b"e"
        fields = json.loads(header)
        return fields.get("reason", ""), json.loads(answer or b"null")

    def told(self, command: str, **arguments: Any) -> Any:
        reason, body = self.ask(command, **arguments)
        assert not reason, reason
        return body

    def heads(self, key: str) -> list[str]:
        found = self.told("show", prefix=key)["keys"].get(key)
        return [head["id"] for head in found["heads"]] if found else []

    def put(self, key: str, value: Any) -> str:
        """What holds from now on, whatever held; the edit's id."""
        op = "DEL" if value is None else "PUT"
        draft = {"key": key, "op": op, "value": value, "parents": self.heads(key)}
        (edit,) = self.told("edit", drafts=[draft])["edits"]
        return str(edit)

    def value(self, key: str) -> Any:
        found = self.told("show", prefix=key)["keys"].get(key)
        return found["value"] if found else None

    def digest(self) -> str:
        return str(self.told("show", prefix="nothing")["digest"])


class Member:
    """A broker of a network, its folder, and an admin who asks it."""

    def __init__(self, network: Network, identity: str) -> None:
        self._network = network
        self.identity = identity
        self.path = network.path / identity
        self.machine = network.lan.machine(identity)
        self.ports = network.lan.ports()
        self.peer_port = self.ports[3]
        self.frontend, self.backend = (f"tcp://{self.machine.host}:{port}" for port in self.ports[:2])
        # Elsewhere than on loopback, a password would be readable on its way to the frontend.
        self.admin_at = self.frontend if self.machine.host.startswith("127.") else ADMIN_PORT
        self.admin = Admin(network.context_of(identity), self.admin_at)
        self.process: BrokerProcess | None = None

    @property
    def broker(self) -> BrokerProcess:
        assert self.process is not None
        return self.process

    @property
    def steward(self) -> int:
        (pid,) = self.broker.children("steward")
        return pid

    def start(self, *flags: str, ulimit: str = "", wait: bool = True) -> Member:
        """On its machine; `broker.wait_until_ready()` is left to who does not wait."""
        flags = ("--folder", str(self.path), *FLAGS, *flags)
        if self._network.journals:
            flags = (*flags, "--journal-folder", str(self.path / "journal"))
        self.process = self._network.start(*flags, ulimit=ulimit, enter=self.machine.enter, wait=wait)
        return self

    def kill(self) -> None:
        """As a power cut would; the folder is free when this returns."""
        pids = [
            self.broker.pid,
            *(pid for module in ("dispatcher", "router", "steward") for pid in self.broker.children(module)),
        ]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(map(alive, pids)), 10, "the end of all its processes")

    def is_active(self) -> bool:
        """Its routers have heard from the steward, and take tasks."""
        connection = Raw(self._network.context_of(self.identity), zmq.DEALER, self.frontend)
        try:
            # With a time-out: a broker that has just started does not know at once that nobody offers it.
            connection.tell("TASK", service="nobody-offers-this", timeout_ms=50)
            return not connection.hear()["reason"].startswith("disabled")
        finally:
            connection.socket.close(0)

    def cli(
        self, *arguments: str, code: int = 0, user: str = "admin", password: str = PASSWORD, typed: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """A command of an admin on this broker's machine."""
        env = {"FAMULUS_FRONTEND": self.admin_at, "FAMULUS_ADMIN": user, "FAMULUS_ADMIN_PASSWORD": password}
        return famulus(*arguments, env=env, code=code, enter=self.machine.enter, typed=typed)

    def cli_json(self, *arguments: str, code: int = 0, **options: Any) -> Any:
        return json.loads(self.cli(*arguments, "--json", code=code, **options).stdout)

    def logged_digest(self) -> str:
        """The beginning of its digest, as its log tells: nobody has to be asked, and no password checked."""
        found = [match[1] for line in list(self.broker.lines) if (match := re.search(r" digest (\w+),", line))]
        return found[-1] if found else ""


class Network:
    def __init__(self, path: Path, lan: Lan | None = None, *, journals: bool = False) -> None:
        """`journals`: its brokers write them, where a broker of a network does."""
        self.path = path
        self.journals = journals
        self.lan: Lan = lan or Loopback()
        self.members: dict[str, Member] = {}
        self._contexts: dict[str, Context] = {}
        self._started: list[Process] = []

    def __getitem__(self, identity: str) -> Member:
        return self.members[identity]

    def context_of(self, machine: str) -> Context:
        if machine not in self._contexts:
            self._contexts[machine] = self.lan.context(machine)
        return self._contexts[machine]

    def found(
        self,
        identity: str = "b1",
        *flags: str,
        slow_password: bool = False,
        keys: Keys = "remote",
        ulimit: str = "",
    ) -> Member:
        """What it takes to check a password stands beside its hash: next to nothing here, where hundreds of questions
        are asked, unless the time that it takes is what is tested."""
        member = self.members[identity] = Member(self, identity)
        names = ("frontend_port", "backend_port", "config_pub_port", "peer_port")
        place = {"family": "main", "host": member.machine.host, **dict(zip(names, member.ports, strict=True))}
        with nullcontext() if slow_password else patch.multiple(passwords, MEMORY_KIB=8, PASSES=1):
            found(member.path, identity, place, "admin", PASSWORD, keys=keys)
        return member.start(*flags, ulimit=ulimit)

    def join(
        self,
        identity: str,
        at: str = "b1",
        secret: Path | None = None,
        family: str = "main",
        wait: bool = True,
        flags: tuple[str, ...] = (),
    ) -> Member:
        member = Member(self, identity)
        where = f"{self[at].machine.host}:{self[at].peer_port}"
        file = secret or self[at].path / "join.secret"
        join = ("--join", where, "--secret-file", str(file), "--identity", identity, "--family", family)
        place = ("--host", member.machine.host, *port_flags(member.ports))
        self.members[identity] = member.start(*join, *place, *flags, wait=wait)
        return member

    def start(self, *flags: str, ulimit: str = "", enter: tuple[str, ...] = (), wait: bool = True) -> BrokerProcess:
        broker = BrokerProcess(*flags, ulimit=ulimit, enter=enter, wait=wait)
        self._started.append(broker)
        return broker

    def run(self, machine: str, *command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> Process:
        """A process on a machine, such as a worker or a client; it ends with the network."""
        self._started.append(Process(*self.lan.machine(machine).enter, sys.executable, *command, cwd=cwd, env=env))
        return self._started[-1]

    def in_step(self) -> bool:
        return len({member.admin.digest() for member in self.members.values()}) == 1

    def wait_until_in_step(self, within_s: float = STEP_S) -> None:
        wait_until(self.in_step, within_s, "the same config everywhere")

    def wait_until_active(self, within_s: float = 20) -> None:
        wait_until(lambda: all(member.is_active() for member in self.members.values()), within_s, "all active")

    def close(self) -> None:
        for process in reversed(self._started):
            for pid in process.children("steward") if isinstance(process, BrokerProcess) else ():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)  # a stopped one could not see that we end
            process.close()
        for context in self._contexts.values():
            context.destroy(linger=0)
        self.lan.close()


def port_flags(ports: list[int]) -> list[str]:
    names = ("--frontend-port", "--backend-port", "--config-pub-port", "--peer-port")
    return [each for name, port in zip(names, ports, strict=True) for each in (name, str(port))]


def famulus(
    *arguments: str,
    env: dict[str, str] | None = None,
    code: int = 0,
    enter: tuple[str, ...] = (),
    typed: str = "",
) -> subprocess.CompletedProcess[str]:
    done = warm.run(
        [*enter, sys.executable, "-m", "famulus", *arguments],
        env={**os.environ, **(env or {})},
        input=typed,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code, done
    return done


@contextmanager
def two_with_a_dashboard(path: Path, *flags: str) -> Iterator[Network]:
    """b1, which has an HTTP port, and b2."""
    network = Network(path)
    try:
        network.found("b1", "--http-port", "0", *flags)
        network.join("b2")
        network.wait_until_in_step(20)
        yield network
    finally:
        network.close()
