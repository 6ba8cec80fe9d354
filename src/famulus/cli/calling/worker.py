"""`famulus worker`: run a worker that a module defines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from famulus.cli import suggestions
from famulus.cli.calling.modules import imported, split
from famulus.cli.calling.reload import run_and_reload
from famulus.cli.calling.spark_worker import SparkOptions, run_with_spark
from famulus.cli.logs import ModuleLogs
from famulus.cli.options import flat, option
from famulus.errors import SettingsError
from famulus.exit_codes import ExitCode

if TYPE_CHECKING:
    from famulus.worker.worker import Worker


@dataclass(frozen=True)
class WorkerOptions:
    """Options that are given override what the module says."""

    broker: list[str] | None = option(
        "A broker's backend, the preferred one first; may be repeated. [default: FAMULUS_BACKEND or 127.0.0.1:7101]"
    )
    pass_file: Path | None = option(
        "A pass, for brokers that want a key. [default: FAMULUS_PASS]", "--pass", metavar="FILE"
    )
    at_once: bool = option(
        "Serve all these brokers at the same time, each with its share of slots.", "--at-once", default=False
    )
    config_file: Path | None = option("Remember here what the broker says of its family, for the next start.")
    identity: str | None = option("Unique name. [default: host, process id, random]")
    slots: int | None = option("Tasks at once. [default: 1, or one per process]")
    processes: int | None = option("Run plain functions in this many child processes. [default: 0, in threads]")
    heartbeat_ms: int | None = option("A longer heartbeat than the broker's. [default: the broker's]")
    wait: bool = option("Wait for a broker that is not there yet.", "--wait", default=False)
    time_limit_s: float | None = option("How long a call may take, where a service has no limit. [default: for ever]")
    drain_s: float | None = option("How long running tasks may take when it stops. [default: 30]")

    def apply(self, worker: Worker) -> None:
        given = asdict(self)
        # A flag that is not given overrides nothing.
        for flag in ("at_once", "wait"):
            given[flag] = given[flag] or None
        worker.change(addresses=given.pop("broker") or None, **given)


@flat
def worker(
    *,
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE[:NAME]",
            help="Where the Worker is; NAME is 'worker' if not given. With --spark, where the function is.",
            autocompletion=suggestions.modules,
        ),
    ],
    overrides: WorkerOptions,
    with_spark: SparkOptions,
    log_level: Annotated[
        str, typer.Option(help="debug, info, warning or error; of the module's own logs too.")
    ] = "info",
    log_json: Annotated[bool, typer.Option("--log-json", help="Log as JSON, one object per line.")] = False,
    reload: Annotated[
        bool, typer.Option("--reload", help="Start again when a file of the module changes; for development.")
    ] = False,
) -> None:
    """Run the worker that a Python module defines. Options win over what the module says.

    The module is looked for in the current folder first. With this in shop.py it is `shop` or `shop:worker`:

    \b
      from famulus import Worker
      worker = Worker(slots=4)
      @worker.service("echo")
      def echo(body):
          return body

    With --spark it is a function from a DataFrame of tasks to one of answers; each batch of tasks is a Spark job:

    \b
      famulus worker --spark scoring:score --service score

    Ctrl-C or SIGTERM drains: no new tasks, and the running ones may finish; a second one stops at once.

    Exit codes: 0 drained; 1 tasks were given up, or the worker failed; 2 wrong usage; 7 no broker there.

    Example: famulus worker shop:worker --broker 127.0.0.1:7101 --broker 127.0.0.1:7201 --slots 8
    """
    from famulus.worker.current import current_task

    logs = ModuleLogs(log_level, current_task, as_json=log_json)
    if reload:
        with logs.while_imported():
            raise typer.Exit(run_and_reload(target.partition(":")[0]))
    if with_spark.is_wanted:
        drained = run_with_spark(target, with_spark, overrides.apply, logs)
    else:
        with logs.while_imported():
            chosen = _find(target)
        overrides.apply(chosen)
        with logs.while_it_runs():
            drained = chosen.run()
    if not drained:
        raise typer.Exit(ExitCode.FAILED)


def _find(target: str) -> Worker:
    """The Worker that `module:name` stands for, or one clear sentence about why there is none."""
    from famulus.worker.worker import Worker

    module_name, name = split(target)
    name = name or "worker"
    module = imported(module_name, target)
    found = getattr(module, name, None)
    if isinstance(found, Worker):
        return found
    others = [key for key, value in vars(module).items() if isinstance(value, Worker)]
    hint = f"; it has {', '.join(others)}" if others else "; make one with worker = famulus.Worker()"
    what = "has no" if found is None else f"has a {type(found).__name__}, not a Worker, as"
    raise SettingsError(f"the module {module_name} {what} {name!r}{hint}")
