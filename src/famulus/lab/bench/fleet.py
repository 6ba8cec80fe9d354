"""The processes of a measurement: started, waited for, stopped. None of them outlives it, wherever Ctrl-C comes."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from famulus.errors import BenchFailed
from famulus.lab.processes import broker_parts, family, python

#: How long a process may take to become ready, even on an overloaded machine.
START_S = 60.0
#: How much longer than its time a client may take: to start, and for its last answers.
GRACE_S = 60.0
#: Between two checks of a port.
LOOK_S = 0.02


class Member:
    """One process."""

    def __init__(
        self, name: str, command: list[str], *, stderr: bool = False, environment: dict[str, str] | None = None
    ) -> None:
        """With `stderr`, what it prints there is read as well. `environment`: what it has besides our own."""
        self.name = name
        elsewhere = subprocess.STDOUT if stderr else subprocess.DEVNULL
        # In a session of its own, so that Ctrl-C reaches only us, and we stop it in order.
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=elsewhere,
            text=True,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
        self.pid = self._process.pid

    def wait_until(self, pattern: str, within_s: float = START_S) -> re.Match[str]:
        """Wait for a line that matches. A process without one in time is killed; its last line becomes the error."""
        assert self._process.stdout is not None
        last = "it said nothing"
        alarm = threading.Timer(within_s, self.signal, (signal.SIGKILL,))
        alarm.start()
        try:
            for line in self._process.stdout:
                if match := re.search(pattern, line):
                    return match
                last = line.strip() or last
        finally:
            alarm.cancel()
        raise BenchFailed(f"the {self.name} ended with {self._process.wait()} before it was ready: {last}")

    def wait_for_port(self, port: int) -> None:
        """Wait until the port accepts connections, for programs that do not say when they are ready."""
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            if (code := self._process.poll()) is not None:
                raise BenchFailed(f"the {self.name} ended with {code} before it was ready")
            time.sleep(LOOK_S)
        raise BenchFailed(f"nobody can connect to the {self.name} after {START_S:.0f} s")

    def output(self, within_s: float) -> str:
        """What it printed until it ended by itself."""
        try:
            text, _ = self._process.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            raise BenchFailed(f"the {self.name} did not end within {within_s:.0f} s") from None
        if self._process.returncode:
            raise BenchFailed(f"the {self.name} ended with {self._process.returncode}: {text[-500:]}")
        return text

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def stop(self) -> None:
        if self._process.poll() is None:
            self.signal(signal.SIGTERM)
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def ended(self) -> None:
        """Wait until it has ended by itself."""
        self._process.wait(START_S)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def parts(self) -> dict[str, int]:
        """It and its children by name: a broker is several processes."""
        parts = {self.name: self.pid}
        for pid, part in broker_parts(self.pid).items():
            name = part or f"{self.name}-child"
            while name in parts:
                name += "'"
            parts[name] = pid
        return parts


class Broker(NamedTuple):
    member: Member
    frontend: str
    backend: str


class Crew(list[Member]):
    """All its members are stopped at the end, the last one first, including one that never became ready."""

    def __init__(self) -> None:
        super().__init__()
        #: For members that are started from now on.
        self.environment: dict[str, str] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for member in reversed(self):
            member.stop()
        if self._folder is not None:
            self._folder.cleanup()

    def start(self, name: str, command: list[str], *, stderr: bool = False) -> Member:
        member = Member(name, command, stderr=stderr, environment=self.environment)
        self.append(member)
        return member

    def folder(self) -> Path:
        """For files of its members; it is removed when they are stopped."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="famulus-bench-", ignore_cleanup_errors=True)
        return Path(self._folder.name)

    def part(self, name: str, module: str, *words: object, stderr: bool = False) -> Member:
        """One of our own processes: the `main` of a module of the bench, with these words as arguments."""
        return self.start(name, python("famulus.lab.bench", module, *map(str, words)), stderr=stderr)

    def broker(self, *flags: str, name: str = "broker") -> Broker:
        """On free ports if it has no folder, and without a journal or an HTTP port unless the flags say otherwise."""
        given = {"--folder", "--frontend-port"} & {*flags}
        ports = () if given else ("--frontend-port", "0", "--backend-port", "0")
        command = python("famulus", "broker", *ports, "--drain-ms", "500", "--no-http", "--no-journal", *flags)
        member = self.start(name, command)
        ready = member.wait_until(r"clients (\S+), workers (\S+) ")
        return Broker(member, ready[1], ready[2])

    def echo_broker(self, window: int, *flags: str, name: str = "broker") -> Broker:
        """With a worker that has twice as many slots as the window is wide, so that the backlog is never measured."""
        broker = self.broker(*flags, name=name)
        self.echo_worker(broker, window)
        return broker

    def echo_worker(self, broker: Broker, window: int) -> Member:
        return self.worker("famulus", broker.backend, max(64, 2 * window))

    def worker(self, peer: str, *arguments: object) -> Member:
        """An echo worker of one of the peers."""
        member = self.part("worker", "peers.process", peer, "worker", *arguments, stderr=True)
        member.wait_until("is ready")
        return member

    def parts(self) -> dict[str, list[int]]:
        """Process ids by the name of the part, each process by itself."""
        return {name: [pid] for member in self for name, pid in member.parts().items()}

    def families(self) -> dict[str, list[int]]:
        """Process ids by the name of the member: some servers are several processes."""
        pids: dict[str, list[int]] = {}
        for member in self:
            pids.setdefault(member.name, []).extend(family(member.pid))
        return pids
