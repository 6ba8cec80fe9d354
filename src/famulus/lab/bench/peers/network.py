"""Famulus as a peer once more: its broker is one of three of a network, with stewards that write to each other."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from famulus.errors import BenchFailed
from famulus.lab.bench import fleet
from famulus.lab.bench.peers import ours, recruit
from famulus.lab.bench.peers.side import Side

#: Besides the one that is measured.
OTHERS = 2
PORTS = ("--frontend-port", "--backend-port", "--config-pub-port", "--peer-port")


def in_network(sides: Mapping[str, Side], scratch: Path) -> dict[str, Side]:
    """The same sides, ours in a network whose folders are in `scratch`."""
    peer = replace(ours.PEER, start=partial(start, scratch))
    return {name: replace(side, peer=peer) if side.peer is ours.PEER else side for name, side in sides.items()}


def start(scratch: Path, crew: recruit.Crew, window: int) -> str:
    place = Path(tempfile.mkdtemp(dir=scratch))
    ports = [str(recruit.free_port()) for _ in PORTS]
    found(place / "measured", ports)
    address = ours.start(crew, window, "--folder", str(place / "measured"))
    for number in range(1, OTHERS + 1):
        join(crew, place, f"other-{number}", ports[-1])
    return address


def found(folder: Path, ports: list[str]) -> None:
    command = fleet.python("famulus", "init", str(folder), "--identity", "measured", *_with_ports(ports))
    made = subprocess.run(
        command, env={**os.environ, "FAMULUS_ADMIN_PASSWORD": "measured"}, capture_output=True, text=True
    )
    if made.returncode:
        raise BenchFailed(f"no network could be made: {made.stderr.strip()}")


def join(crew: recruit.Crew, place: Path, identity: str, port: str) -> None:
    secret = place / "measured" / "join.secret"
    ports = _with_ports([str(recruit.free_port()) for _ in PORTS])
    arguments = ["--folder", str(place / identity), "--join", f"127.0.0.1:{port}", "--secret-file", str(secret)]
    command = fleet.python("famulus", "broker", *arguments, "--identity", identity, *ours.PLAIN, *ports)
    recruit.Recruit(crew, "other brokers", command, stderr=True).wait_until("is ready")


def _with_ports(ports: list[str]) -> list[str]:
    return [each for pair in zip(PORTS, ports, strict=True) for each in pair]
