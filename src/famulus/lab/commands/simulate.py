"""`famulus simulate`: the real core in an invented world, one run per seed, spread over the cores of this machine.

Each job is a process of its own that writes one line of JSON per seed to its pipe: a `Result`.
`python -m famulus.lab.commands.simulate EXPERIMENT FIRST STOP STRIDE` is such a job.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import cycle
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from famulus._plain import SWITCH
from famulus.core.delivery import Policy
from famulus.errors import FamulusError, SettingsError
from famulus.exit_codes import ExitCode
from famulus.lab.processes import python

if TYPE_CHECKING:
    from famulus.lab.sim.scenarios import Scenario
    from famulus.lab.sim.workload import Result


#: What is simulated: for a network, or for one broker besides its usual worlds.
What = Literal["config", "tasks", "rights", "overload"]


def simulate(
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="How many seeds to run.")] = 300,
    first: Annotated[int, typer.Option(min=0, metavar="SEED", help="The first of them.")] = 0,
    seed: Annotated[int | None, typer.Option(min=0, metavar="SEED", help="Run this one only.")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="With --seed: show its faults and its last steps.")] = False,
    mutant: Annotated[
        str, typer.Option(metavar="NAME", help="Break the core on purpose; 'list' shows the ways to do so.")
    ] = "",
    brokers: Annotated[
        int | None,
        typer.Option(
            min=0, max=16, metavar="K", help="A network of K brokers instead, see --what; 0: as each seed says."
        ),
    ] = None,
    what: Annotated[
        What,
        typer.Option(
            help="With --brokers: the config that they share, the tasks that they carry, or rights. Or overload."
        ),
    ] = "config",
    policy: Annotated[Policy, typer.Option(help="By which all services choose their workers.")] = "lru",
    jobs: Annotated[int | None, typer.Option(min=1, metavar="J", help="Processes; one per core unless told.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")] = False,
) -> None:
    """Run a broker, its routers, workers and clients in an invented world where anything may fail.

    A seed fixes everything: who connects, what is asked, which messages are slow, and which workers, clients, routers
    and dispatchers are killed, paused or cut off, and when. After every step and at the end the invariants are checked:
    every task has one outcome, in time; what was rejected never ran; no slot, task or byte is lost. A seed that breaks
    one fails at the same step whenever it is run again.

    With --mutant the core is broken on purpose, and the simulation has to notice: that is what makes its silence
    otherwise worth something.

    With --brokers it is a network. Its config (--what config): stewards with disks, admins who get into each
    other's way, partitions, lost and doubled messages, crashes before the disk has it, old backups, damaged records,
    clocks that jump. What an admin was told to be safe is never lost, equal digests mean equal configs, a conflict
    stands until it is resolved, and after the healing all agree in time.

    Or its tasks (--what tasks): a family of brokers and those that it falls back on hand tasks over to each other,
    while brokers, workers and clients are killed, paused, drained, disabled and cut off from each other. Every task has
    one outcome in time, what was rejected never ran, at-most-once tasks never run twice, and no task goes in circles.

    Or the rights of those who bring and do these tasks (--what rights): principals are revoked, narrowed and widened,
    their keys are replaced, and brokers that cannot hear each other are told different things. Nothing runs that its
    broker never allowed, or has not allowed for two seconds, and nobody loses anything by a new key.

    With --policy all services choose their workers by that policy, and all of this must hold as before. By `key`, a
    task goes to the worker of its key as long as that is there and has room.

    With --what overload one broker is asked for more than its worker can do: what can be done is done, in time, and
    next to nothing is begun in vain.

    Exit code: 0 if all seeds are clean, or the mutant was caught by the invariant it was planted for; 1 if not.

    Examples:

    famulus simulate --seeds 1000

    famulus simulate --seed 42 --trace

    famulus simulate --mutant late-answer-keeps-slot

    famulus simulate --brokers 5 --seeds 1000

    famulus simulate --brokers 5 --what tasks --seeds 1000

    famulus simulate --brokers 0 --what rights --seeds 1000

    famulus simulate --what overload --seeds 100

    famulus simulate --policy key --seeds 100
    """
    if what == "overload" and (brokers is not None or trace):
        raise SettingsError("--what overload is about one broker, and has no --trace")
    if what in ("tasks", "rights") and brokers is None:
        raise SettingsError(f"--what {what} is about a network: say how large with --brokers (0: as each seed says)")
    if what == "tasks" and brokers in (1, 2):
        raise SettingsError("--brokers: a family has 3 brokers or more here, or 0, as each seed says")
    scenario = "one" if brokers is None and what == "config" else {"tasks": "brokers"}.get(what, what)
    if policy != "lru" and scenario in ("config", "overload"):
        raise SettingsError("--policy is about worlds with several workers: one broker, --what tasks or --what rights")
    experiment = Experiment(scenario, brokers or 0, mutant, trace, policy)
    mutants = experiment.scenario.mutants
    if mutant == "list":
        for name, each in mutants.items():
            typer.echo(f"{name:<30}{each.what}")
        return
    if mutant and mutant not in mutants:
        raise SettingsError(f"--mutant: there is no {mutant!r}, but {', '.join(mutants)}")
    if trace and seed is None:
        raise SettingsError("--trace shows one run: say which with --seed")
    if trace and scenario == "config":
        raise SettingsError("--trace cannot show the config of a network yet")
    how = "" if brokers is None else f" --brokers {brokers}"
    how += "" if what == "config" else f" --what {what}"
    how += "" if policy == "lru" else f" --policy {policy}"
    how += " --trace" if scenario in ("one", "brokers", "rights") else ""
    how += f" --mutant {mutant}" if mutant else ""
    if seed is not None:
        first, seeds, jobs = seed, 1, 1
    started = time.monotonic()
    runs = _run_all(experiment, first, seeds, jobs or len(os.sched_getaffinity(0)), quiet=as_json)
    for run in runs:
        typer.echo(run.trace, nl=False, err=as_json)
    report = _sum_up(experiment, runs, how, time.monotonic() - started) | {"brokers": brokers}
    if as_json:
        typer.echo(msgspec.json.encode(report).decode())
    else:
        _show(report)
    raise typer.Exit(ExitCode.DONE if bool(report["failures"]) == bool(mutant) else ExitCode.FAILED)


class Experiment(msgspec.Struct, frozen=True):
    """What is run with each seed."""

    name: str
    #: 0: as each seed says.
    brokers: int
    mutant: str
    #: Whether the faults and the last steps are shown.
    trace: bool = False
    policy: Policy = "lru"

    @property
    def scenario(self) -> Scenario[Any]:
        from famulus.lab.sim.scenarios import SCENARIOS

        scenario = SCENARIOS[self.name]
        return scenario if self.policy == "lru" else scenario.choosing_by(self.policy)

    @property
    def caught_by(self) -> tuple[str, ...]:
        """The invariants by which the mutant counts as caught."""
        return self.scenario.mutants[self.mutant].caught_by if self.mutant else ()

    def failed(self, run: Result) -> bool:
        """For a mutant: whether it failed as it should."""
        return run.invariant in self.caught_by if self.mutant else bool(run.what)

    def in_place(self) -> AbstractContextManager[None]:
        return self.scenario.mutants[self.mutant].in_place() if self.mutant else nullcontext()


# -- many seeds ---------------------------------------------------------------------------------------------------


def _run_all(experiment: Experiment, first: int, seeds: int, jobs: int, *, quiet: bool) -> list[Result]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = ("seeds", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), "[red]{task.fields[failed]}")
    bar = Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal)
    runs: list[Result] = []
    failed = 0
    with bar:
        progress = bar.add_task("", total=seeds, failed="")
        for run in _jobs(experiment, first, first + seeds, min(jobs, seeds)):
            runs.append(run)
            failed += experiment.failed(run)
            bar.update(progress, advance=1, failed=f"{failed} failed" if failed else "")
            # One catch is enough.
            if experiment.mutant and failed:
                break
    return runs


def _jobs(experiment: Experiment, first: int, stop: int, jobs: int) -> Iterator[Result]:
    """The runs of all seeds, in their order. Every job is stopped when no more runs are wanted."""
    processes = [_start_job(experiment, first + number, stop, jobs) for number in range(jobs)]
    try:
        runs = _read_lines([process.stdout for process in processes if process.stdout is not None])
        for _ in range(first, stop):
            if (run := next(runs, None)) is None:
                raise FamulusError("a job of the simulation died; what it said stands above")
            yield run
    finally:
        for process in processes:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _start_job(experiment: Experiment, first: int, stop: int, stride: int) -> subprocess.Popen[bytes]:
    told = [msgspec.json.encode(experiment).decode(), *map(str, (first, stop, stride))]
    command = python("famulus.lab.commands.simulate", *told)
    # Only the sources can be broken; see `famulus.lab.sim.mutants`.
    environment = os.environ | (SWITCH if experiment.mutant else {})
    # Not in our process group: on Ctrl-C we stop the jobs, and they print nothing.
    return subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, env=environment)


def _read_lines(pipes: list[IO[bytes]]) -> Iterator[Result]:
    """The jobs take the seeds in turn and are read in turn; one that is far ahead waits until its pipe has room."""
    from famulus.lab.sim.workload import Result

    decode = msgspec.json.Decoder(Result).decode
    for pipe in cycle(pipes):
        line = pipe.readline()
        # The last output of a job that died may be half a line.
        if not line.endswith(b"\n"):
            return
        yield decode(line)


def _work(text: str, first: str, stop: str, stride: str) -> None:
    """One job: its seeds, one line each."""
    from famulus.lab.sim.trace import Trace

    experiment = msgspec.json.decode(text, type=Experiment)
    with experiment.in_place():
        for seed in range(int(first), int(stop), int(stride)):
            workload = experiment.scenario.start(seed, experiment.brokers)
            trace = Trace(workload.world) if experiment.trace else None
            run: Result = workload.run()
            if trace is not None:
                run = msgspec.structs.replace(run, trace=f"{trace}\n")
            sys.stdout.buffer.write(msgspec.json.encode(run) + b"\n")
            sys.stdout.buffer.flush()


# -- what people see ----------------------------------------------------------------------------------------------


def _sum_up(experiment: Experiment, runs: list[Result], how: str, seconds: float) -> dict[str, Any]:
    outcomes: Counter[str] = Counter()
    events: Counter[str] = Counter()
    for run in runs:
        outcomes.update(run.outcomes)
        events.update(run.events)
    counted = [run for run in runs if experiment.failed(run)]
    return {
        "mutant": experiment.mutant or None,
        "caught_by": list(experiment.caught_by),
        "failed_otherwise": [run.what for run in runs if run.what and run not in counted],
        "what": "config" if experiment.name == "config" else "tasks",
        "first": runs[0].seed,
        "seeds": len(runs),
        **{name: sum(getattr(run, name) for run in runs) for name in ("steps", "tasks", "edits")},
        "faults": sum(len(run.faults) for run in runs),
        "outcomes": {name: outcomes[name] for name in ("OK", "ERROR", "REJECTED", "UNKNOWN")},
        "events": dict(sorted(events.items())),
        "seconds": round(seconds, 2),
        "failures": [
            {
                "seed": run.seed,
                "step": run.steps,
                "what": run.what,
                "invariant": run.invariant,
                "replay": f"famulus simulate --seed {run.seed}{how}",
            }
            for run in counted
        ],
    }


def _show(report: dict[str, Any]) -> None:
    for failure in report["failures"]:
        typer.echo(failure["what"])
        typer.echo(f"    replay: {failure['replay']}")
    outcomes = ", ".join(f"{count:,} {name}" for name, count in report["outcomes"].items())
    work = f"{report['tasks']:,} tasks ({outcomes})" if report["what"] == "tasks" else f"{report['edits']:,} edits"
    typer.echo(
        f"{_counted(report['seeds'], 'seed')} from {report['first']}, {report['steps']:,} steps,"
        f" {report['faults']:,} faults, {work} in {report['seconds']:.1f} s"
    )
    for event, count in report["events"].items():
        typer.echo(f"{count:>10,}  {event}")
    if report["mutant"] is not None:
        _show_catch(report)
    else:
        failed = len(report["failures"])
        typer.echo(f"{failed} of them broke an invariant" if failed else "every invariant held")


def _show_catch(report: dict[str, Any]) -> None:
    meant, otherwise = " or ".join(report["caught_by"]), report["failed_otherwise"]
    if report["failures"]:
        first = report["failures"][0]
        typer.echo(
            f"mutant {report['mutant']}: caught by seed {first['seed']}, by the invariant {first['invariant']!r}"
        )
        return
    typer.echo(f"mutant {report['mutant']}: not caught by what it was planted for ({meant})")
    if otherwise:
        typer.echo(f"{_counted(len(otherwise), 'seed')} failed in another way, which does not count: {otherwise[0]}")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


if __name__ == "__main__":
    try:
        _work(*sys.argv[1:])
    except BrokenPipeError:
        # Whoever was reading is gone. Nothing is left to flush, so nothing is left to complain about.
        os._exit(ExitCode.FAILED)
