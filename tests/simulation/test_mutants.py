"""A mutant counts as caught only by an invariant that it was planted for, whatever else it does."""

from __future__ import annotations

from typing import Any

import pytest

from famulus.lab.commands.simulate import Experiment
from famulus.lab.sim.config.steward import Steward
from famulus.lab.sim.invariants import Broken, Invariant
from famulus.lab.sim.mutants import Mutant
from famulus.lab.sim.scenarios import SCENARIOS, Scenario
from famulus.lab.sim.tasks.broker import Broker

ALL = {f"{scenario.name}-{name}": (scenario, name) for scenario in SCENARIOS.values() for name in scenario.mutants}


@pytest.mark.parametrize(("scenario", "name"), ALL.values(), ids=list(ALL))
def test_each_names_its_invariants_and_replaces_something(scenario: Scenario[Any], name: str) -> None:
    mutant = scenario.mutants[name]
    assert mutant.caught_by
    assert set(mutant.caught_by) <= set(Invariant)
    right = getattr(mutant.owner, mutant.attribute)
    assert right is not mutant.wrong
    assert (mutant.name, bool(mutant.what)) == (name, True)


def clumsy(self: object) -> None:
    """It takes less than what it replaces is given."""


def loud(*_: object) -> None:
    raise Broken(Invariant.SLOTS, "said the mutant")


#: What the scenario runs, and no core has compiled.
REPLACEABLE = {"one": (Broker, "announce"), "brokers": (Broker, "on_offers"), "config": (Steward, "on_message")}


@pytest.mark.parametrize("scenario", REPLACEABLE)
@pytest.mark.parametrize(
    ("wrong", "says", "caught"),
    [(clumsy, "TypeError: ", False), (loud, "slots: said the mutant", False), (loud, "slots: said the mutant", True)],
    ids=["an error of its own", "another invariant", "its invariant"],
)
def test_only_what_it_was_planted_for_counts(
    monkeypatch: pytest.MonkeyPatch, scenario: str, wrong: object, says: str, caught: bool
) -> None:
    planted = Mutant("planted", "", *REPLACEABLE[scenario], wrong, (Invariant.SLOTS if caught else Invariant.BOUNDS,))
    monkeypatch.setitem(SCENARIOS[scenario].mutants, "planted", planted)
    experiment = Experiment(scenario, 0, "planted")
    with experiment.in_place():
        run = SCENARIOS[scenario].run(0)
    assert says in run.what
    assert experiment.failed(run) is caught
