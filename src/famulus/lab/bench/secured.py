"""Servers whose clients and workers need keys: a broker of a network with a pass, and a certificate for TLS.

Both are found through the environment, by programs that know nothing of it: the pass by ours, the certificate by those
that use Python's `ssl`.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from pathlib import Path

from famulus.broker.certificate import make_certificate
from famulus.broker.folder import Folder
from famulus.errors import BenchFailed
from famulus.lab.bench.fleet import Broker, Crew
from famulus.lab.processes import found_network, free_ports, python
from famulus.net.passes import VARIABLE

ADMIN = "bench"
PORTS = ("--frontend-port", "--backend-port", "--config-pub-port", "--peer-port")
#: What Python's `ssl` believes in, if it is set.
CERTIFICATES = "SSL_CERT_FILE"


def broker(crew: Crew, *flags: str, name: str = "broker") -> Broker:
    """The only one of its network. Members of the crew that are started after it have a pass, for all services.

    With a pass they connect by CURVE or not at all. Without one they could come as well, from this machine, as the
    admin does who makes it.
    """
    home, password = crew.folder() / "broker", secrets.token_urlsafe(16)
    ports = [word for option, port in zip(PORTS, free_ports(len(PORTS)), strict=True) for word in (option, str(port))]
    if wrong := found_network(home, password, "--admin", ADMIN, "--keys", "remote", *ports):
        raise BenchFailed(f"no network could be made: {wrong}")
    started = crew.broker("--folder", str(home), *flags, name=name)
    file = crew.folder() / "bench.pass"
    rights = ["--call", "*", "--serve", "*", "--out", str(file)]
    _run(
        python("famulus", "pass", "new", "bench", *rights, "--broker", started.frontend, "--user", ADMIN),
        FAMULUS_ADMIN_PASSWORD=password,
    )
    crew.environment[VARIABLE] = str(file)
    return started


def certificate(crew: Crew) -> tuple[Path, Path]:
    """For 127.0.0.1, signed by itself, and its key. Members of the crew that are started after it believe in it."""
    folder = Folder(crew.folder())
    make_certificate(folder, ["127.0.0.1"])
    crew.environment[CERTIFICATES] = str(folder.certificate)
    return folder.certificate, folder.certificate_key


def _run(command: list[str], **environment: str) -> None:
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchFailed(f"{' '.join(command[:4])}: {done.stderr.strip()[-500:] or done.returncode}")
