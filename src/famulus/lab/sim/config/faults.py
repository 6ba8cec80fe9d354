"""What can go wrong with stewards and their disks: any of these at any time, drawn from the seed."""

from __future__ import annotations

from collections.abc import Callable

from famulus.core.clock import NS_PER_S
from famulus.core.config.edit_set import EditSet
from famulus.lab.sim.config.pen import verify
from famulus.lab.sim.config.steward import Steward
from famulus.lab.sim.config.workload import Config

PARTED_NS_MAX = 4 * NS_PER_S


def part_network(config: Config) -> None:
    config.world.part(list(config.stewards), PARTED_NS_MAX)


def cut_link(config: Config) -> None:
    one, other = sorted(config.random.choice(config.topology.pairs))
    config.world.part_from({one}, {other}, PARTED_NS_MAX)


def kill(config: Config) -> None:
    config.kill(config.anybody())


def crash_before_sync(config: Config) -> None:
    """The next time that it has something to write, it dies between the writing and the sync."""
    config.anybody().disk.armed = True


def damage_record(config: Config) -> None:
    _strike_disk(config, lambda steward: steward.disk.damage(config.random))


def lose_log(config: Config) -> None:
    """The file is gone, or nothing in it can be read: all that is left is what others have."""
    _strike_disk(config, lambda steward: steward.disk.restore())


def restore_backup(config: Config) -> None:
    _strike_disk(config, lambda steward: steward.disk.restore(config.random.choice(config.backups[steward.name])))


def _strike_disk(config: Config, strike: Callable[[Steward], None]) -> None:
    """While its steward is down. No more can be asked of it than what is left there."""
    steward = config.anybody()
    config.kill(steward)
    strike(steward)
    left = EditSet(steward.pen.network, verify)
    left.add(steward.disk.read())
    config.ledger.note_loss(steward.name, left)


def back_up(config: Config) -> None:
    steward = config.anybody()
    config.backups[steward.name].append(steward.disk.records)


def jump_clock(config: Config) -> None:
    config.world.jump_wall_clock(config.anybody().name)


def forge_edit(config: Config) -> None:
    """The last broker was modified by its admin, who wants what belongs to others; its clock says whatever it likes."""
    config.forge()


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
