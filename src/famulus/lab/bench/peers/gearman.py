"""Gearman as a peer: gearmand, with pygearman in the worker and the client."""

from __future__ import annotations

import importlib
from functools import partial
from itertools import islice
from typing import Any

from famulus.errors import BenchFailed
from famulus.lab.bench.fleet import Crew
from famulus.lab.bench.meter import Meter, Order
from famulus.lab.bench.peers.peer import TIMEOUT_S, Needs, Peer, program
from famulus.lab.processes import free_port

PROGRAMS = {"gearmand": "gearman-job-server"}
#: The library accepts text too, but then does not recognise its own services.
SERVICE = b"echo"


def start(worker_of: str, crew: Crew, window: int) -> str:
    """Start a server with the worker of this peer; returns its port."""
    port = str(free_port())
    # No log: it would have a line for each task. And nothing from this machine's own configuration.
    silent = ["--log-file", "none", "--config-file", "/dev/null"]
    # At its best: with few connections, its four I/O threads get in each other's way.
    command = [program("gearmand"), "--listen", "127.0.0.1", "--port", port, "--threads", "1", *silent]
    crew.start("server", command, stderr=True).wait_for_port(int(port))
    crew.worker(worker_of, port)
    return port


def worker(port: str) -> None:
    def echo(_: Any, job: Any) -> bytes:
        body: bytes = job.data
        return body

    serving = importlib.import_module("gearman").GearmanWorker([f"127.0.0.1:{port}"])
    serving.register_task(SERVICE, echo)
    # Tasks that come before it is connected wait for it.
    print("worker is ready", flush=True)
    serving.work()


def client(order: Order) -> Meter:
    """A whole window at a time: that is what the library offers, and a sliding one built from its parts is slower."""
    asking = importlib.import_module("gearman").GearmanClient([f"127.0.0.1:{order.address}"])
    meter, stream = order.begin()
    while jobs := [{"task": SERVICE, "data": body} for body in islice(stream, order.window)]:
        for job in asking.submit_multiple_jobs(jobs, poll_timeout=TIMEOUT_S):
            if not job.complete:
                raise BenchFailed(f"no answer within {TIMEOUT_S:.0f} s")
            meter.note(job.result)
    return meter


NEEDS = Needs(PROGRAMS, {"gearman": "pygearman"})
PEER = Peer("gearman", partial(start, "gearman"), client, {"worker": worker}, NEEDS)
