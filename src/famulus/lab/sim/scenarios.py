"""What can be simulated: workloads, the faults that strike in them, and the mutants that they have to catch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar, cast

from famulus.core.delivery import Policy
from famulus.lab.sim.config import faults as config_faults
from famulus.lab.sim.config.mutants import OF_THE_CONFIG
from famulus.lab.sim.config.workload import Config
from famulus.lab.sim.mutants import Mutants
from famulus.lab.sim.overload import Overload
from famulus.lab.sim.tasks import faults, mutants, setting
from famulus.lab.sim.tasks.workload import Tasks
from famulus.lab.sim.workload import Result, Workload
from famulus.lab.sim.world import World

W = TypeVar("W", bound=Workload)


@dataclass(frozen=True)
class Scenario(Generic[W]):
    name: str
    #: In this world, for this many brokers; 0: as the seed says.
    workload: Callable[[World, int], W]
    mutants: Mutants
    #: Far more than any seed needs: a world that goes in circles is broken, too.
    steps_max: int
    faults: Mapping[Callable[[W], None], int] = field(default_factory=dict)
    #: Some seeds are quiet, some are wild: one of these numbers is drawn, with faults of at least this many kinds.
    faults_drawn: tuple[int, ...] = (0,)
    kinds_min: int = 0

    def start(self, seed: int, brokers: int = 0) -> W:
        world = World(seed, self.name, self.steps_max)
        workload = self.workload(world, brokers)
        if self.faults:
            count = world.random.choice(self.faults_drawn)
            kinds = world.random.randint(self.kinds_min, len(self.faults))
            # From these kinds, those with more weight more often, at any time until the last one may strike.
            drawn = world.random.sample(list(self.faults), kinds)
            for fault in world.random.choices(drawn, [self.faults[kind] for kind in drawn], k=count):
                at_ns = world.random.randrange(workload.faults_end_ns)
                world.clock.after(at_ns, partial(world.strike, fault, workload))
            workload.on_faults_planned(count)
        return workload

    def choosing_by(self, policy: Policy) -> Scenario[Tasks]:
        """The same, but workers are chosen by this policy. Only for worlds with workers."""
        assert isinstance(self.workload, partial)
        told = replace(self.workload.keywords["setting"], policy=policy)
        known = mutants.OF_KEYS if policy == "key" else self.mutants
        return replace(cast("Scenario[Tasks]", self), workload=partial(Tasks, setting=told), mutants=known)

    def run(self, seed: int, brokers: int = 0) -> Result:
        return self.start(seed, brokers).run()


ONE_BROKER = Scenario(
    "one",
    partial(Tasks, setting=setting.ONE),
    mutants.OF_ONE_BROKER,
    200_000,
    faults.OF_ONE_BROKER,
    faults_drawn=(0, 1, 3, 10, 25),
    kinds_min=1,
)
SEVERAL_BROKERS = Scenario(
    "brokers",
    partial(Tasks, setting=setting.SEVERAL),
    mutants.OF_SEVERAL_BROKERS,
    1_500_000,
    faults.OF_SEVERAL_BROKERS,
    faults_drawn=(0, 3, 8, 15, 25),
    kinds_min=4,
)
RIGHTS = Scenario(
    "rights",
    partial(Tasks, setting=setting.GUARDED),
    mutants.OF_RIGHTS,
    500_000,
    faults.OF_RIGHTS,
    faults_drawn=(0, 6, 10, 14),
    kinds_min=8,
)
CONFIG = Scenario("config", Config, OF_THE_CONFIG, 200_000, config_faults.FAULTS, (0, 2, 8, 20), kinds_min=1)
OVERLOAD = Scenario("overload", Overload, mutants.OF_OVERLOAD, 200_000)
SCENARIOS: dict[str, Scenario[Any]] = {
    each.name: each for each in (ONE_BROKER, SEVERAL_BROKERS, RIGHTS, CONFIG, OVERLOAD)
}
