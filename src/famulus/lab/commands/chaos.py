"""`famulus chaos`: real processes, faults of every kind, ledgers on both sides, one verdict."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from famulus.errors import SettingsError
from famulus.exit_codes import ExitCode

if TYPE_CHECKING:
    from famulus.lab.chaos.run import Run


def chaos(
    seconds: Annotated[float, typer.Option(min=10, help="How long faults strike.")] = 60.0,
    seed: Annotated[int, typer.Option(min=0, help="The plan of faults follows from it.")] = 0,
    brokers: Annotated[int, typer.Option(min=2, max=8, help="The last one is of a family to fall back on.")] = 3,
    workers: Annotated[int, typer.Option(min=1, max=16, help="With 8 slots each.")] = 4,
    clients: Annotated[int, typer.Option(min=1, max=8, help="Each a process, with a ledger.")] = 2,
    callers: Annotated[int, typer.Option(min=1, max=1000, help="Of each client, with one task open at a time.")] = 16,
    lan: Annotated[
        bool, typer.Option("--lan/--loopback", help="Give each process a network namespace, where root allows it.")
    ] = True,
    folder: Annotated[Path | None, typer.Option(help="For logs and ledgers, which stay there. It must be new.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")] = False,
) -> None:
    """Kill, stop, part and reconfigure a real network under load, and see whether every promise is kept.

    Brokers of two families, workers and clients run as processes of their own on this machine. Each client writes
    down what it sends and is told, each worker what it begins. Meanwhile every kind of process is killed and stopped,
    brokers are drained and disabled, the config is edited, and, with root, machines are cut off from each other, also
    one way only. Then everything heals, and the ledgers are compared.

    Each of these is a violation: a task without exactly one outcome, or with one long after its deadline; an OK that
    nobody ran; a REJECTED that somebody did; an at-most-once task that ran twice; another task's answer; an edit that
    was acknowledged and is not everywhere in the end; a process that dies by itself; a traceback; a network that is
    not whole again half a minute after the last fault.

    Exit code: 0 if there is none, else 1. Logs and ledgers are kept if there is one, or with --folder.

    Example: famulus chaos --seconds 300 --seed 7
    """
    from famulus.lab.chaos.run import carry_out

    if folder is not None and folder.exists():
        raise SettingsError(f"--folder: {folder} is there already")
    place = folder or Path(tempfile.mkdtemp(prefix="chaos-"))
    place.mkdir(parents=True, exist_ok=True)
    tell = partial(print, file=sys.stderr if as_json else sys.stdout, flush=True)
    try:
        run = carry_out(place, brokers, workers, clients, callers, seed, seconds, tell, lan=lan)
    except KeyboardInterrupt:
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)
        raise
    report = _report(run, seed, seconds, str(place))
    violations = report["violations"]
    if not violations and folder is None:
        shutil.rmtree(place, ignore_errors=True)
    typer.echo(json.dumps(report) if as_json else _in_words(report))
    raise typer.Exit(ExitCode.FAILED if violations else ExitCode.DONE)


def _report(run: Run, seed: int, seconds: float, folder: str) -> dict[str, Any]:
    from famulus.lab.chaos.ledgers import weigh

    network = run.network
    ledgers = {path: killed for client in network.clients.values() for path, killed in client.ledgers.items()}
    calls = [worker.ledger for worker in network.workers.values()]
    violations, figures = weigh(ledgers, calls, run.struck, run.slack_s)
    return {
        "seed": seed,
        "seconds": seconds,
        "parting": run.parting,
        **figures,
        "faults": dict(sorted(Counter(fault.kind for _, fault in run.struck).items())),
        "edits_acknowledged": sum(map(len, run.admin.acknowledged.values())),
        "edits_refused": run.admin.refused,
        "longest_lag_s": round(run.lag_s, 3),
        "false_alarms": run.logs.false_alarms,
        "violations": [*run.violations, *violations],
        "folder": folder,
    }


def _in_words(report: dict[str, Any]) -> str:
    outcomes = ", ".join(f"{count:,} {name}" for name, count in report["outcomes"].items())
    lines = [
        f"{report['tasks']:,} tasks: {outcomes}; {report['ran_again']:,} at-least-once tasks ran again",
        f"{sum(report['faults'].values()):,} faults: "
        + ", ".join(f"{count} {kind}" for kind, count in report["faults"].items()),
        f"{report['edits_acknowledged']} edits acknowledged, {report['edits_refused']} not",
        f"{len(report['false_alarms'])} processes were killed as hanging that nobody had stopped",
        "until the next success of a client (median, worst): "
        + ", ".join(
            f"{kind} {took['median_s']:.1f} s, {took['worst_s']:.1f} s" for kind, took in report["recovery"].items()
        ),
    ]
    if report["violations"]:
        lines += [f"VIOLATION  {violation}" for violation in report["violations"]]
        lines.append(f"logs and ledgers: {report['folder']}")
    else:
        lines.append("Every promise was kept.")
    return "\n".join(lines)
