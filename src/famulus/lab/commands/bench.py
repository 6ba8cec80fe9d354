"""`famulus bench`: measurements with processes of their own, on this machine."""

from __future__ import annotations

import atexit
import os
import signal
import sys

import typer

from famulus.exit_codes import ExitCode
from famulus.lab.commands.bench_batch import batch
from famulus.lab.commands.bench_echo import echo, journal, peers, viewers
from famulus.lab.commands.bench_limits import arrivals, latency, overload, recovery, restarts, scale
from famulus.lab.commands.bench_pipeline import pipeline
from famulus.lab.commands.bench_policy import policy
from famulus.lab.commands.bench_serve import serve
from famulus.lab.commands.bench_spark import spark
from famulus.lab.commands.bench_streams import streams
from famulus.lab.processes import family, send_signal

app = typer.Typer()
for command in (
    echo,
    overload,
    latency,
    scale,
    arrivals,
    policy,
    batch,
    streams,
    peers,
    pipeline,
    serve,
    spark,
    journal,
    viewers,
    recovery,
    restarts,
):
    app.command()(command)


@app.callback()
def _bench() -> None:
    """Measure this machine: each command starts its own broker, workers and clients."""
    signal.signal(signal.SIGTERM, _end)
    # A signal may come between the start of a process and the moment when somebody takes charge of it.
    atexit.register(_leave_nobody_behind)


def _end(number: int, _: object) -> None:
    """As with Ctrl-C, whatever was started is stopped first; nothing interrupts that."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(ExitCode.TERMINATED)


def _leave_nobody_behind() -> None:
    send_signal(family(os.getpid())[1:], signal.SIGKILL)
