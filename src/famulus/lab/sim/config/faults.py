"""What can go wrong, and a plan of it: any of these at any time, drawn from the seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.lab.sim.plan import plan

if TYPE_CHECKING:
    from famulus.lab.sim.config.world import World

_DAY_MS = 24 * 60 * 60 * 1000


def part_network(world: World) -> None:
    """Some on one side, the others on the other; several such parts may overlap."""
    names = list(world.stewards)
    side = set(world.random.sample(names, world.random.randint(1, len(names) - 1)))
    world.mesh.part(side, _while(world))


def cut_link(world: World) -> None:
    world.mesh.cut([world.random.choice(world.mesh.pairs)], _while(world))


def kill(world: World) -> None:
    world.kill(world.anybody())


def crash_before_sync(world: World) -> None:
    """The next time that it has something to write, it dies between the writing and the sync."""
    world.anybody().disk.armed = True


def damage_record(world: World) -> None:
    steward = world.anybody()
    world.kill(steward)
    steward.disk.damage(world.random)
    world.struck(steward)


def lose_log(world: World) -> None:
    """The file is gone, or nothing in it can be read: all that is left is what others have."""
    steward = world.anybody()
    world.kill(steward)
    steward.disk.wipe()
    world.struck(steward)


def restore_backup(world: World) -> None:
    steward = world.anybody()
    world.kill(steward)
    steward.disk.restore(world.random.choice(world.backups[steward.name]))
    world.struck(steward)


def back_up(world: World) -> None:
    steward = world.anybody()
    world.backups[steward.name].append(steward.disk.back_up())


def jump_clock(world: World) -> None:
    """By a second, by an hour, or by years, in either direction."""
    jump_ms = world.random.choice([1000, 3_600_000, 4000 * _DAY_MS])
    world.clock_errors_ms[world.anybody().name] += world.random.choice([-jump_ms, jump_ms])


def forge_edit(world: World) -> None:
    """The last broker was changed by its admin, who wants what belongs to others, and has any clock it likes."""
    world.forge()


def _while(world: World) -> int:
    return world.random.randrange(100 * NS_PER_MS, 4 * NS_PER_S)


FAULTS: dict[Callable[[World], None], int] = {
    part_network: 4,
    cut_link: 2,
    kill: 2,
    crash_before_sync: 2,
    damage_record: 1,
    lose_log: 1,
    restore_backup: 1,
    back_up: 2,
    jump_clock: 2,
    forge_edit: 3,
}


def plan_faults(world: World, until_ns: int) -> None:
    """Some seeds are quiet, some are wild."""
    kinds = world.random.sample(list(FAULTS), world.random.randint(1, len(FAULTS)))
    plan(world, FAULTS, kinds, world.random.choice([0, 2, 8, 20]), until_ns)
