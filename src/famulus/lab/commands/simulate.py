"""`famulus simulate`: the real core in an invented world, one run per seed, spread over the cores of this machine.

Each job is a process of its own that writes one line of JSON per seed to its pipe; what a line says is a `Run`.
`python -m famulus.lab.commands.simulate FIRST STOP STRIDE MUTANT BROKERS WHAT` is such a job.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from functools import partial
from selectors import EVENT_READ, DefaultSelector
from typing import IO, TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from famulus._plain import SWITCH, is_compiled
from famulus.errors import FamulusError, SettingsError

if TYPE_CHECKING:
    from famulus.lab.sim.brokers.world import World as Network
    from famulus.lab.sim.config.rules import Rules
    from famulus.lab.sim.mutants import Mutant
    from famulus.lab.sim.world import World

#: With --trace: how many of the last steps are shown.
STEPS_SHOWN = 40
FRAME_CHARS_SHOWN = 100


class Run(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one seed; `what` is empty if every invariant held."""

    seed: int
    steps: int
    tasks: int = 0
    faults: int = 0
    outcomes: dict[str, int] = {}
    edits: int = 0
    events: dict[str, int] = {}
    what: str = ""
    #: The one that was broken; empty if something else went wrong.
    invariant: str = ""


class What(StrEnum):
    """What is simulated: of a network, or of one broker besides its usual worlds."""

    CONFIG = "config"
    TASKS = "tasks"
    OVERLOAD = "overload"


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
        typer.Option(help="With --brokers: the config that they share, or the tasks that they carry. Or overload."),
    ] = What.CONFIG,
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

    With --what overload one broker is asked for more than its worker can do: what can be done is done, in time, and
    next to nothing is begun in vain.

    Exit code: 0 if all seeds are clean, or the mutant was caught by the invariant it was planted for; 1 if not.

    Examples:

    famulus simulate --seeds 1000

    famulus simulate --seed 42 --trace

    famulus simulate --mutant late-answer-keeps-slot

    famulus simulate --brokers 5 --seeds 1000

    famulus simulate --brokers 5 --what tasks --seeds 1000

    famulus simulate --what overload --seeds 100
    """
    if what is What.OVERLOAD and (brokers is not None or trace):
        raise SettingsError("--what overload is about one broker, and has no --trace")
    if what is What.TASKS and brokers is None:
        raise SettingsError("--what tasks is about a network: say how large with --brokers (0: as each seed says)")
    if brokers in (1, 2) and what is What.TASKS:
        raise SettingsError("--brokers: a family has 3 brokers or more here, or 0, as each seed says")
    if mutant == "list":
        _list_mutants(brokers, what)
        return
    _check_mutant(mutant, brokers, what)
    if trace and seed is None:
        raise SettingsError("--trace shows one run: say which with --seed")
    if trace and brokers is not None and what is What.CONFIG:
        raise SettingsError("--trace cannot show the config of a network yet")
    if trace and mutant and seed is not None and is_compiled():
        raise typer.Exit(_again_with_sources(seed, mutant, brokers, as_json))
    if seed is not None:
        first, seeds, jobs = seed, 1, 1
    started = time.monotonic()
    if trace:
        runs = [_run_traced(first, mutant, brokers, sys.stderr if as_json else sys.stdout)]
    else:
        runs = _run_all(first, seeds, jobs or len(os.sched_getaffinity(0)), mutant, brokers, what, quiet=as_json)
    report = _sum_up(runs, mutant, brokers, what, time.monotonic() - started)
    if as_json:
        typer.echo(msgspec.json.encode(report).decode())
    else:
        _show(report)
    raise typer.Exit(0 if bool(report["failures"]) == bool(mutant) else 1)


# -- one seed -----------------------------------------------------------------------------------------------------


def run_seed(seed: int, watch: Callable[[World], None] | None = None) -> Run:
    """Whatever happens in there, it happened to this seed at this step."""
    from famulus.lab.sim.world import Failure, World

    world = World(seed)
    if watch is not None:
        watch(world)
    try:
        result = world.run()
    except Failure as failure:
        return Run(seed, failure.step, what=str(failure), invariant=failure.invariant)
    except Exception as error:
        steps = world.clock.steps
        return Run(seed, steps, what=f"seed {seed}, step {steps}: {type(error).__name__}: {error}")
    return Run(seed, result.steps, result.tasks, result.faults, result.outcomes)


def run_config_seed(seed: int, brokers: int, mutant: str) -> Run:
    """The same for the config of a network."""
    from famulus.lab.sim.config.world import run_seed as run_network

    result = run_network(seed, brokers or None, mutant)
    return Run(
        seed,
        result.steps,
        faults=len(result.faults),
        edits=result.acknowledged,
        what=result.what,
        invariant=result.invariant,
    )


def run_network_seed(seed: int, brokers: int, watch: Callable[[Network], None] | None = None) -> Run:
    """The same for the tasks of a network."""
    from famulus.lab.sim.brokers.world import World, run_world

    world = World(seed, brokers or None)
    if watch is not None:
        watch(world)
    result = run_world(world)
    outcomes, events = dict(result.outcomes), dict(result.events)
    faults = len(result.faults)
    return Run(seed, result.steps, result.tasks, faults, outcomes, 0, events, result.what, result.invariant)


def run_overload_seed(seed: int) -> Run:
    """The same for more work than can be done."""
    from famulus.lab.sim.invariants import in_words, invariant_of
    from famulus.lab.sim.overload import simulate as run_overload

    try:
        result = run_overload(seed)
    except Exception as error:
        return Run(seed, 0, what=f"seed {seed}: {in_words(error)}", invariant=invariant_of(error))
    return Run(seed, result.steps, sum(result.outcomes.values()), outcomes=result.outcomes)


def _broken(mutant: str, brokers: int | None = None, what: What = What.CONFIG) -> AbstractContextManager[None]:
    """The core, broken for one broker, or for the tasks of several."""
    from famulus.lab.sim.brokers.mutants import MUTANTS as OF_BROKERS
    from famulus.lab.sim.mutants import MUTANTS, OF_OVERLOAD

    if what is What.OVERLOAD:
        return OF_OVERLOAD[mutant].in_place() if mutant else nullcontext()
    return (MUTANTS if brokers is None else OF_BROKERS)[mutant].in_place() if mutant else nullcontext()


def _mutants(brokers: int | None, what: What) -> Mapping[str, Mutant | Rules]:
    """The ways to break the core, or the tasks or the config of a network."""
    from famulus.lab.sim.brokers.mutants import MUTANTS as OF_BROKERS
    from famulus.lab.sim.config.rules import MUTANTS as OF_THE_CONFIG
    from famulus.lab.sim.mutants import MUTANTS, OF_OVERLOAD

    if what is What.OVERLOAD:
        return OF_OVERLOAD
    if brokers is None:
        return MUTANTS
    return OF_BROKERS if what is What.TASKS else OF_THE_CONFIG


def _check_mutant(mutant: str, brokers: int | None, what: What) -> None:
    known = _mutants(brokers, what)
    if mutant and mutant not in known:
        raise SettingsError(f"--mutant: there is no {mutant!r}, but {', '.join(known)}")


def _list_mutants(brokers: int | None, what: What) -> None:
    for name, mutant in _mutants(brokers, what).items():
        typer.echo(f"{name:<30}{mutant.what}")


def _catchers(mutant: str, brokers: int | None, what: What) -> tuple[str, ...]:
    """The invariants by which it counts as caught."""
    return _mutants(brokers, what)[mutant].caught_by if mutant else ()


# -- many seeds ---------------------------------------------------------------------------------------------------


def _run_all(
    first: int, seeds: int, jobs: int, mutant: str, brokers: int | None, what: What, *, quiet: bool
) -> list[Run]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("seeds"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]}", style="red"),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    )
    runs: dict[int, Run] = {}
    failed: list[int] = []
    catchers = _catchers(mutant, brokers, what)
    with bar:
        progress = bar.add_task("", total=seeds, failed="")
        for run in _jobs(first, first + seeds, min(jobs, seeds), mutant, brokers, what):
            runs[run.seed] = run
            if run.invariant in catchers if mutant else run.what:
                failed.append(run.seed)
            bar.update(progress, advance=1, failed=f"{len(failed)} failed" if failed else "")
            # One catch is enough; but the first of them, so that the same command says the same again.
            if mutant and failed and all(seed in runs for seed in range(first, min(failed))):
                return [runs[seed] for seed in range(first, min(failed) + 1)]
    return [runs[seed] for seed in sorted(runs)]


def _jobs(first: int, stop: int, jobs: int, mutant: str, brokers: int | None, what: What) -> Iterator[Run]:
    """The runs of all seeds as they end. Every job is stopped when nobody wants to hear more."""
    processes = [_start_job(first + number, stop, jobs, mutant, brokers, what) for number in range(jobs)]
    try:
        yield from _read_lines([process.stdout for process in processes if process.stdout is not None])
        if any(process.wait() for process in processes):
            raise FamulusError("a job of the simulation died; what it said stands above")
    finally:
        for process in processes:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _start_job(
    first: int, stop: int, stride: int, mutant: str, brokers: int | None, what: What = What.CONFIG
) -> subprocess.Popen[bytes]:
    numbers = [str(first), str(stop), str(stride)]
    network = "" if brokers is None else str(brokers)
    command = [sys.executable, "-m", "famulus.lab.commands.simulate", *numbers, mutant, network, what]
    # Only the sources can be broken; see `famulus.lab.sim.mutants`.
    environment = os.environ | (SWITCH if mutant else {})
    # Not in our process group: at Ctrl-C we stop the jobs, and they have no last words.
    return subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, env=environment)


def _read_lines(pipes: list[IO[bytes]]) -> Iterator[Run]:
    decode = msgspec.json.Decoder(Run).decode
    with DefaultSelector() as selector:
        rests = dict.fromkeys(pipes, b"")
        for pipe in pipes:
            selector.register(pipe, EVENT_READ, pipe)
        while selector.get_map():
            for key, _ in selector.select():
                pipe = key.data
                came = os.read(pipe.fileno(), 1 << 16)
                if not came:
                    selector.unregister(pipe)
                *lines, rests[pipe] = (rests[pipe] + came).split(b"\n")
                yield from map(decode, lines)


def _work(first: str, stop: str, stride: str, mutant: str, brokers: str, what: str) -> None:
    """One job: its seeds, one line each."""
    config = bool(brokers) and what == What.CONFIG
    with _broken("" if config else mutant, int(brokers) if brokers else None, What(what)):
        for seed in range(int(first), int(stop), int(stride)):
            if config:
                run = run_config_seed(seed, int(brokers), mutant)
            elif what == What.OVERLOAD:
                run = run_overload_seed(seed)
            else:
                run = run_network_seed(seed, int(brokers)) if brokers else run_seed(seed)
            sys.stdout.buffer.write(msgspec.json.encode(run) + b"\n")
            sys.stdout.buffer.flush()


# -- what people see ----------------------------------------------------------------------------------------------


def _sum_up(runs: list[Run], mutant: str, brokers: int | None, what: What, seconds: float) -> dict[str, Any]:
    outcomes: Counter[str] = Counter()
    events: Counter[str] = Counter()
    for run in runs:
        outcomes.update(run.outcomes)
        events.update(run.events)
    how = "" if brokers is None else f" --brokers {brokers}"
    how += "" if what is What.CONFIG else f" --what {what}"
    how += " --trace" if what is What.TASKS or (brokers is None and what is What.CONFIG) else ""
    how += f" --mutant {mutant}" if mutant else ""
    catchers = _catchers(mutant, brokers, what)
    counted = [run for run in runs if (run.invariant in catchers if mutant else run.what)]
    return {
        "mutant": mutant or None,
        "caught_by": list(catchers),
        "failed_otherwise": [run.what for run in runs if run.what and run not in counted],
        "brokers": brokers,
        "what": "tasks" if brokers is None else what.value,
        "first": runs[0].seed,
        "seeds": len(runs),
        "steps": sum(run.steps for run in runs),
        "tasks": sum(run.tasks for run in runs),
        "edits": sum(run.edits for run in runs),
        "faults": sum(run.faults for run in runs),
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
    work = f"{report['tasks']:,} tasks ({outcomes})" if report["what"] == What.TASKS else f"{report['edits']:,} edits"
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


# -- one seed in the open -----------------------------------------------------------------------------------------


def _run_traced(seed: int, mutant: str, brokers: int | None, out: IO[str]) -> Run:
    worlds: list[World | Network] = []
    last: deque[str] = deque(maxlen=STEPS_SHOWN)

    def watch(world: World | Network) -> None:
        worlds.append(world)
        clock, step = world.clock, world.clock.step

        def noted() -> None:
            time_ns, _, event = clock._events[0]
            last.append(f"{clock.steps + 1:>7}{time_ns / 1e6:>12.3f} ms  {_describe(event)}")
            step()

        clock.step = noted  # type: ignore[method-assign]

    with _broken(mutant, brokers):
        run = run_seed(seed, watch) if brokers is None else run_network_seed(seed, brokers, watch)
    lines = ["faults:", *(f"  {fault}" for fault in worlds[0].faults), f"the last {len(last)} steps:", *last, ""]
    print("\n".join(lines), file=out)
    return run


def _again_with_sources(seed: int, mutant: str, brokers: int | None, as_json: bool) -> int:
    """The same command, where the core can be broken; its exit code."""
    command = [sys.executable, "-m", "famulus", "simulate", "--seed", str(seed), "--trace", "--mutant", mutant]
    command += [] if brokers is None else ["--brokers", str(brokers), "--what", "tasks"]
    done = subprocess.run(
        [*command, "--json"] if as_json else command,
        env=os.environ | SWITCH,
        capture_output=True,
        text=True,
        check=False,
    )
    typer.echo(done.stdout, nl=False)
    typer.echo(done.stderr, nl=False, err=True)
    return done.returncode


def _describe(event: Callable[[], None]) -> str:
    """An event in words: who wakes up, or which message arrives where."""
    owner = getattr(event, "__self__", None)
    if owner is not None:
        return f"{getattr(owner, 'name', type(owner).__name__.lower())} {event.__name__.strip('_')}s"
    if isinstance(event, partial):
        return _describe(event.func)
    held = dict(zip(event.__code__.co_freevars, event.__closure__ or (), strict=True))
    if "towards_broker" in held:
        link, message = held["self"].cell_contents, held["message"].cell_contents
        arrow = "->" if held["towards_broker"].cell_contents else "<-"
        sender = link.peer.decode() or "an announcement"
        return f"{sender} {arrow} {link.broker_name}  {' | '.join(map(_readable, message))}"
    defaults = [getattr(value, "__name__", str(value)) for value in event.__defaults__ or ()]
    return " ".join([event.__qualname__.replace(".<locals>.<lambda>", ""), *defaults])


def _readable(frame: bytes) -> str:
    try:
        text = frame.decode()
    except UnicodeDecodeError:
        text = ""
    if not text.isprintable() or (frame and not text):
        text = "0x" + frame.hex()
    return text if len(text) <= FRAME_CHARS_SHOWN else text[:FRAME_CHARS_SHOWN] + "..."


if __name__ == "__main__":
    try:
        _work(*sys.argv[1:])
    except BrokenPipeError:
        # Whoever wanted to know is gone. Nothing is left to flush, so nothing is left to complain about.
        os._exit(1)
