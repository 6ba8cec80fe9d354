"""Gearman as a peer: gearmand, with pygearman in the worker and the client.

python -m famulus.lab.bench.peers.gearman worker PORT
python -m famulus.lab.bench.peers.gearman client ORDER
"""

from __future__ import annotations

import importlib
import json
import sys
from itertools import islice
from typing import Any

from famulus.errors import BenchFailed
from famulus.lab.bench import fleet
from famulus.lab.bench.peers import recruit
from famulus.lab.bench.peers.meter import Meter
from famulus.lab.bench.peers.order import Order, read
from famulus.lab.bench.peers.peer import Needs, Peer, program

TIMEOUT_S = 30.0
PROGRAMS = {"gearmand": "gearman-job-server"}
#: The library takes text too, but then does not find its own services again.
SERVICE = b"echo"


def start(crew: recruit.Crew, window: int) -> str:
    return start_with(crew, "famulus.lab.bench.peers.gearman")


def start_with(crew: recruit.Crew, module: str) -> str:
    """A server with the worker of this module; its port."""
    port = str(recruit.free_port())
    # No log: it would have a line for each task. And nothing of what this machine may have configured.
    silent = ["--log-file", "none", "--config-file", "/dev/null"]
    # At its best: its four threads for input and output get in each other's way where there are few connections.
    command = [program("gearmand"), "--listen", "127.0.0.1", "--port", port, "--threads", "1", *silent]
    recruit.silent_server(crew, command, int(port))
    recruit.worker(crew, fleet.python(module, "worker", port))
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
    """A whole window at a time: that is what the library offers, and a sliding one made of its parts is slower."""
    asking = importlib.import_module("gearman").GearmanClient([f"127.0.0.1:{order.address}"])
    meter, stream = order.begin()
    while jobs := [{"task": SERVICE, "data": body} for body in islice(stream, order.window)]:
        for job in asking.submit_multiple_jobs(jobs, poll_timeout=TIMEOUT_S):
            if not job.complete:
                raise BenchFailed(f"no answer within {TIMEOUT_S:.0f} s")
            meter.note(job.result)
    return meter


PEER = Peer("gearman", start, "famulus.lab.bench.peers.gearman", Needs(PROGRAMS, {"gearman": "pygearman"}))

if __name__ == "__main__":
    if sys.argv[1] == "worker":
        worker(sys.argv[2])
    else:
        print(json.dumps(client(read(sys.argv[2])).report()))
