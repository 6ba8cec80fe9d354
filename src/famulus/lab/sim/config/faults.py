"""What can go wrong with stewards and their disks: any of these at any time, drawn from the seed."""

from __future__ import annotations

from collections.abc import Callable

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.lab.sim.config.workload import Config


def part_network(config: Config) -> None:
    """Some on one side, the others on the other; several such parts may overlap."""
    names = list(config.stewards)
    side = frozenset(config.random.sample(names, config.random.randint(1, len(names) - 1)))
    config.world.network.part(side, frozenset(names) - side, _while(config))


def cut_link(config: Config) -> None:
    one, other = sorted(config.random.choice(config.topology.pairs))
    config.world.network.part({one}, {other}, _while(config))


def kill(config: Config) -> None:
    config.kill(config.anybody())


def crash_before_sync(config: Config) -> None:
    """The next time that it has something to write, it dies between the writing and the sync."""
    config.anybody().disk.armed = True


def damage_record(config: Config) -> None:
    steward = config.anybody()
    config.kill(steward)
    steward.disk.damage(config.random)
    config.struck(steward)


def lose_log(config: Config) -> None:
    """The file is gone, or nothing in it can be read: all that is left is what others have."""
    steward = config.anybody()
    config.kill(steward)
    steward.disk.wipe()
    config.struck(steward)


def restore_backup(config: Config) -> None:
    steward = config.anybody()
    config.kill(steward)
    steward.disk.restore(config.random.choice(config.backups[steward.name]))
    config.struck(steward)


def back_up(config: Config) -> None:
    steward = config.anybody()
    config.backups[steward.name].append(steward.disk.back_up())


def jump_clock(config: Config) -> None:
    config.world.jump_wall_clock(config.anybody().name)


def forge_edit(config: Config) -> None:
    """The last broker was changed by its admin, who wants what belongs to others, and has any clock it likes."""
    config.forge()


def _while(config: Config) -> int:
    return config.random.randrange(100 * NS_PER_MS, 4 * NS_PER_S)


FAULTS: dict[Callable[[Config], None], int] = {
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
