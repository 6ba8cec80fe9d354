"""Machines of a local network: network namespaces joined by bridges, or all on loopback.

In namespaces a partition is a real one: the cable of a machine is plugged into the switch of its side, and what is on
its way to the others is lost silently. To cut one direction only, a machine is told to send to a card that nobody has.
Both take root and `ip`; elsewhere all share loopback, where nobody can be cut off.

The addresses are in 127.77.0.0/24 unless told otherwise, although they are on cables: a broker listens to admins only
if it listens on loopback.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import subprocess
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from famulus.errors import NoNamespaces
from famulus.lab.processes import free_ports

PORTS = [7100, 7101, 7102, 7103]
MACHINES_MAX = 40
CLONE_NEWNET = 0x40000000
#: Belongs to no machine: nobody receives what is sent to it.
NOBODYS_CARD = 255

_lans = itertools.count()


@dataclass(frozen=True)
class Machine:
    host: str
    #: What to write before a command so that it runs there.
    enter: tuple[str, ...] = ()


class Loopback:
    """All on one machine, where nobody can be cut off."""

    def machine(self, name: str) -> Machine:
        """The machine of this name; a new one if there is none."""
        return Machine("127.0.0.1")

    def ports(self) -> list[int]:
        """Four ports that are free on a machine with one broker."""
        return free_ports(len(PORTS))

    def inside(self, name: str) -> AbstractContextManager[None]:
        """Sockets that this thread makes meanwhile are on that machine."""
        return nullcontext()

    def partition(self, *sides: Collection[str]) -> None:
        """Machines on different sides cannot reach each other; those that are not named are on the first side."""
        raise NoNamespaces

    def cut_one_way(self, sender: str, receiver: str) -> None:
        """What the sender sends to the receiver is lost, but not the other way round."""
        raise NoNamespaces

    def heal(self) -> None: ...
    def close(self) -> None: ...


class Namespaces(Loopback):
    """A namespace with one cable for each machine."""

    def __init__(self, network: str = "127.77.0") -> None:
        _sweep()
        self._network = network
        # With our process id, so that what we leave behind can be told from what is in use; 15 characters at most.
        self._prefix = f"fam{os.getpid()}-{next(_lans)}"
        self._numbers: dict[str, int] = {}
        self._switches: list[str] = []
        self._one_way: list[tuple[str, str]] = []

    def machine(self, name: str) -> Machine:
        if name not in self._numbers:
            self._numbers[name] = len(self._numbers) + 1
            self._make(name)
        return Machine(self._host(name), ("nsenter", f"--net={_path(self._namespace(name))}"))

    def _make(self, name: str) -> None:
        space, cable = self._namespace(name), self._cable(name)
        _ip("netns", "add", space)
        _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("link", "set", cable, "master", self._switch(0), "up")
        with _inside(space):
            _ip("link", "set", "lo", "up")
            if self._network.startswith("127."):
                # Otherwise all of 127.0.0.0/8 would be local.
                _ip("address", "delete", "127.0.0.1/8", "dev", "lo")
            Path("/proc/sys/net/ipv4/conf/eth0/route_localnet").write_text("1")
            _ip("link", "set", "eth0", "address", _card(self._numbers[name]), "up")
            _ip("address", "add", f"{self._host(name)}/24", "dev", "eth0")
            # Nobody is asked who has which address, or a machine that is cut off would learn at once that it is alone.
            known = [
                f"neigh add {self._address(number)} lladdr {_card(number)} dev eth0"
                for number in range(1, MACHINES_MAX)
            ]
            _ip("-batch", "-", script="\n".join(known))

    def ports(self) -> list[int]:
        return PORTS

    def inside(self, name: str) -> AbstractContextManager[None]:
        return _inside(self._namespace(name))

    def partition(self, *sides: Collection[str]) -> None:
        self.heal()
        for number, side in enumerate(sides[1:], 1):
            for name in side:
                _ip("link", "set", self._cable(name), "master", self._switch(number))

    def cut_one_way(self, sender: str, receiver: str) -> None:
        self._one_way.append((sender, receiver))
        self._send_to_card(sender, receiver, NOBODYS_CARD)

    def _send_to_card(self, sender: str, receiver: str, number: int) -> None:
        with self.inside(sender):
            _ip("neigh", "replace", self._host(receiver), "lladdr", _card(number), "dev", "eth0")

    def heal(self) -> None:
        for name in self._numbers:
            _ip("link", "set", self._cable(name), "master", self._switch(0))
        for sender, receiver in self._one_way:
            self._send_to_card(sender, receiver, self._numbers[receiver])
        self._one_way.clear()

    def close(self) -> None:
        for name in self._numbers:
            _ip("link", "delete", self._cable(name), check=False)
            _ip("netns", "delete", self._namespace(name), check=False)
        for switch in self._switches:
            _ip("link", "delete", switch, check=False)

    def _switch(self, number: int) -> str:
        while len(self._switches) <= number:
            self._switches.append(f"{self._prefix}s{len(self._switches)}")
            _ip("link", "add", self._switches[-1], "type", "bridge")
            _ip("link", "set", self._switches[-1], "up")
        return self._switches[number]

    def _namespace(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    def _cable(self, name: str) -> str:
        return f"{self._prefix}c{self._numbers[name]}"

    def _host(self, name: str) -> str:
        return self._address(self._numbers[name])

    def _address(self, number: int) -> str:
        return f"{self._network}.{number}"


def _card(number: int) -> str:
    return f"02:00:00:00:00:{number:02x}"


def can_have_namespaces() -> bool:
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "nsenter"))):
        return False
    name = f"fam{os.getpid()}-probe"
    try:
        _ip("netns", "add", name)
        with _inside(name):
            _ip("link", "add", "probe", "type", "bridge")
            _ip("link", "add", "probe0", "type", "veth", "peer", "name", "probe1")
    except (subprocess.CalledProcessError, OSError):
        return False
    finally:
        _ip("netns", "delete", name, check=False)
    return True


@contextmanager
def _inside(namespace: str) -> Iterator[None]:
    """This thread, and what it starts meanwhile, is on that machine."""
    with open("/proc/thread-self/ns/net") as home, open(_path(namespace)) as there:
        _enter(there.fileno())
        try:
            yield
        finally:
            _enter(home.fileno())


def _enter(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def _path(namespace: str) -> str:
    return f"/run/netns/{namespace}"


def _ip(*arguments: str, check: bool = True, script: str = "") -> None:
    subprocess.run(["ip", *arguments], check=check, capture_output=True, timeout=20, input=script.encode())


def _sweep() -> None:
    """Removes what a killed run left behind. Cables go with their namespaces, switches do not."""
    for folder, kind in (("/run/netns", "netns"), ("/sys/class/net", "link")):
        for path in Path(folder).glob("fam*-*"):
            pid = path.name.removeprefix("fam").partition("-")[0]
            if pid.isdigit() and not Path(f"/proc/{pid}").exists():
                _ip(kind, "delete", path.name, check=False)
