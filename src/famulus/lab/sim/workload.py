"""What a world is about: who lives there, what they want, what must hold; and what became of it."""

from __future__ import annotations

import msgspec

from famulus.lab.sim.invariants import Broken
from famulus.lab.sim.world import World


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one seed; `what` is empty if every invariant held."""

    seed: int
    steps: int
    faults: list[str] = []
    brokers: int = 0
    tasks: int = 0
    #: How often workers ran one of them.
    runs: int = 0
    outcomes: dict[str, int] = {}
    #: Edits that admins were told are safe.
    edits: int = 0
    #: What is worth a mention, and how often it happened.
    events: dict[str, int] = {}
    #: What only one kind of workload has.
    figures: dict[str, float] = {}
    what: str = ""
    #: The one that was broken; empty if none was, or if something else went wrong.
    invariant: str = ""
    #: Its faults and last steps in words, for those who asked to see them.
    trace: str = ""


class Workload:
    #: No fault strikes after this.
    faults_end_ns = 0

    def __init__(self, world: World) -> None:
        self.world = world
        self.clock = world.clock
        self.random = world.random

    def on_faults_planned(self, count: int) -> None:
        """This many will strike."""

    def live(self) -> Result:
        """Let time pass. Broken invariants, and whatever else the core may raise, are raised from here."""
        raise NotImplementedError

    def run(self) -> Result:
        """Whatever goes wrong in there is reported with this seed and step."""
        world = self.world
        try:
            return self.live()
        except Exception as error:  # whatever the core does wrong, the seed is what one wants to know
            seed, steps = world.seed, world.clock.steps
            words, invariant = f"{type(error).__name__}: {error}", ""
            if isinstance(error, Broken):
                words, invariant = str(error), error.invariant.value
            return Result(seed, steps, world.faults, what=f"seed {seed}, step {steps}: {words}", invariant=invariant)
