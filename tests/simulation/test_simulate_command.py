"""`famulus simulate`: clean seeds are a 0, a failing one is a 1 and says how to see it again."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import signature

import pytest
from typer.testing import CliRunner, Result

from famulus.cli import main
from famulus.lab.commands import simulate
from famulus.lab.sim.mutants import Mutant
from famulus.lab.sim.scenarios import ONE_BROKER, OVERLOAD, SEVERAL_BROKERS
from famulus.lab.sim.trace import STEPS_SHOWN
from famulus.lab.sim.workload import Result as Run

MUTANT = "late-answer-keeps-slot"
#: Those that take the place of a method.
PLANTED = [each for scenario in (ONE_BROKER, SEVERAL_BROKERS, OVERLOAD) for each in scenario.mutants.values()]


def run(*args: str) -> Result:
    return CliRunner().invoke(main.new_app(), ["simulate", *args])


@dataclass(frozen=True)
class Caught:
    seed: int
    step: int
    what: str


@pytest.fixture(scope="module")
def caught() -> Caught:
    """The first seed that notices the mutant."""
    (failure,) = json.loads(run("--mutant", MUTANT, "--seeds", "100", "--jobs", "1", "--json").stdout)["failures"]
    return Caught(failure["seed"], failure["step"], failure["what"])


def test_clean_seeds_are_summed_up() -> None:
    result = run("--seeds", "6", "--first", "40", "--jobs", "2")
    assert result.exit_code == 0, result.output
    assert "6 seeds from 40" in result.stdout
    assert "every invariant held" in result.stdout
    assert "\x1b[" not in result.output


def test_json_has_the_same_figures_whatever_the_number_of_jobs() -> None:
    reports = [json.loads(run("--seeds", "3", "--jobs", jobs, "--json").stdout) for jobs in ("1", "2", "16")]
    for report in reports:
        assert report.pop("seconds") >= 0
    assert reports[0] == reports[1] == reports[2]
    worlds = [ONE_BROKER.run(seed) for seed in range(3)]
    assert reports[0]["seeds"] == 3
    assert reports[0]["steps"] == sum(world.steps for world in worlds)
    assert reports[0]["tasks"] == sum(world.tasks for world in worlds)
    assert reports[0]["outcomes"]["OK"] == sum(world.outcomes.get("OK", 0) for world in worlds)
    assert reports[0]["failures"] == []


def test_a_failing_seed_is_named_with_its_step_and_how_to_replay_it(
    monkeypatch: pytest.MonkeyPatch, caught: Caught
) -> None:
    start = simulate._start_job
    # The jobs get a broken core, and nobody told the command.
    broken = simulate.Experiment("one", 0, MUTANT)
    monkeypatch.setattr(simulate, "_start_job", lambda _, *seeds: start(broken, *seeds))
    result = run("--seeds", "2", "--first", str(caught.seed), "--jobs", "2")
    assert result.exit_code == 1
    assert caught.what in result.stdout
    assert f"replay: famulus simulate --seed {caught.seed} --trace\n" in result.stdout


def test_the_replay_shows_faults_and_steps_up_to_the_broken_one(caught: Caught) -> None:
    result = run("--seed", str(caught.seed), "--trace", "--mutant", MUTANT)
    assert result.exit_code == 0, result.output
    assert "faults:\n" in result.stdout
    steps = re.findall(r"^ +(\d+) +[\d.]+ ms  \S", result.stdout, re.MULTILINE)
    assert len(steps) == STEPS_SHOWN
    assert int(steps[-1]) == caught.step
    assert caught.what in result.stdout


def test_an_error_that_is_no_invariant_is_a_failure_of_its_seed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def trip(self: object, now_ns: int) -> None:
        raise IndexError("tripped")

    monkeypatch.setattr("famulus.lab.sim.tasks.client.Client.run", trip)
    ran = ONE_BROKER.run(0)
    assert ran.what == f"seed 0, step {ran.steps}: IndexError: tripped"


def test_a_mutant_is_caught_by_the_first_seed_that_can(caught: Caught) -> None:
    result = run("--mutant", MUTANT, "--seeds", "30", "--jobs", "3", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    (failure,) = report["failures"]
    assert (failure["seed"], failure["step"], failure["what"]) == (caught.seed, caught.step, caught.what)
    assert failure["replay"] == f"famulus simulate --seed {caught.seed} --trace --mutant {MUTANT}"
    assert report["seeds"] == caught.seed + 1


def test_a_mutant_that_is_not_caught_is_a_failure() -> None:
    """A quiet world never loses a router, so it cannot notice what happens to the questions of a lost one."""
    result = run("--mutant", "router-takes-questions-along", "--seed", "0")
    assert result.exit_code == 1
    assert "not caught" in result.stdout


@pytest.mark.parametrize("invariant", ["", "bounds"])
def test_a_mutant_that_fails_in_another_way_than_it_was_planted_for_is_not_caught(
    monkeypatch: pytest.MonkeyPatch, invariant: str
) -> None:
    """An error of the mutant's own, or another invariant: neither says that the one that was meant would notice."""
    failed = [Run(seed, 9, what=f"seed {seed}, step 9: no", invariant=invariant) for seed in range(2)]
    monkeypatch.setattr(simulate, "_jobs", lambda *_: iter(failed))
    result = run("--mutant", MUTANT, "--seeds", "2")
    assert result.exit_code == 1
    assert "not caught by what it was planted for (slots)" in result.stdout
    assert "2 seeds failed in another way, which does not count: seed 0, step 9: no" in result.stdout


@pytest.mark.parametrize("mutant", PLANTED, ids=lambda mutant: mutant.name)
def test_a_mutant_is_called_like_what_it_replaces(mutant: Mutant) -> None:
    """Or else it would fail by its own mistake instead of the one that it is about."""
    right, wrong = (
        list(signature(each).parameters) for each in (getattr(mutant.owner, mutant.attribute), mutant.wrong)
    )
    assert right == wrong


def test_the_config_of_a_network_is_simulated_too() -> None:
    result = run("--brokers", "3", "--seeds", "5", "--jobs", "2")
    assert result.exit_code == 0, result.output
    assert "5 seeds from 0" in result.stdout
    assert " edits in " in result.stdout
    assert "every invariant held" in result.stdout


def test_a_mutant_of_the_config_is_caught_and_can_be_seen_again() -> None:
    result = run("--brokers", "0", "--mutant", "higher-version", "--seeds", "50", "--jobs", "2", "--json")
    assert result.exit_code == 0, result.output
    (failure,) = json.loads(result.stdout)["failures"]
    assert failure["replay"] == f"famulus simulate --seed {failure['seed']} --brokers 0 --mutant higher-version"
    again = run(*failure["replay"].split()[2:], "--json")
    assert json.loads(again.stdout)["failures"] == [failure]


def test_the_tasks_of_a_network_are_simulated_too() -> None:
    result = run("--brokers", "3", "--what", "tasks", "--seeds", "3", "--jobs", "2")
    assert result.exit_code == 0, result.output
    assert "3 seeds from 0" in result.stdout
    assert " handed over within the family" in result.stdout
    assert "every invariant held" in result.stdout
    report = json.loads(run("--brokers", "3", "--what", "tasks", "--seed", "2", "--json").stdout)
    world = SEVERAL_BROKERS.run(2, 3)
    assert (report["what"], report["steps"], report["events"]) == ("tasks", world.steps, dict(world.events))


def test_mutants_can_be_listed() -> None:
    result = run("--mutant", "list")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == list(ONE_BROKER.mutants)


@pytest.mark.parametrize(
    "args",
    [
        ["--mutant", "nonesuch"],
        ["--trace"],
        ["--brokers", "3", "--mutant", "late-answer-keeps-slot"],
        ["--brokers", "3", "--what", "tasks", "--mutant", "higher-version"],
        ["--brokers", "3", "--what", "weather"],
        ["--brokers", "2", "--what", "tasks"],
        ["--brokers", "3", "--trace", "--seed", "1"],
        ["--what", "tasks"],
        ["--what", "overload", "--policy", "ewma"],
        ["--policy", "random"],
        ["--seeds", "0"],
        ["--jobs", "0"],
    ],
)
def test_wrong_usage_is_one_line_and_a_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], args: list[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["famulus", "simulate", *args])
    with pytest.raises(SystemExit) as ended:
        main.run()
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_ctrl_c_stops_every_job(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start, read = simulate._start_job, simulate._read_lines

    def remember(*args: object) -> subprocess.Popen[bytes]:
        started.append(start(*args))  # type: ignore[arg-type]
        return started[-1]

    def interrupt(pipes: list[object]) -> Iterator[Run]:
        yield next(read(pipes))  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(simulate, "_start_job", remember)
    monkeypatch.setattr(simulate, "_read_lines", interrupt)
    monkeypatch.setattr("sys.argv", ["famulus", "simulate", "--seeds", "100000", "--jobs", "2"])
    with pytest.raises(SystemExit) as ended:
        main.run()
    assert ended.value.code == 130
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)
    assert "Traceback" not in capsys.readouterr().err


def test_a_job_that_dies_is_not_taken_for_a_clean_one(monkeypatch: pytest.MonkeyPatch) -> None:
    start = simulate._start_job
    wrong = simulate.Experiment("one", 0, "nope")
    monkeypatch.setattr(simulate, "_start_job", lambda _, *seeds: start(wrong, *seeds))
    result = run("--seeds", "2", "--jobs", "1")
    assert result.exit_code != 0
    assert "died" in str(result.exception)
