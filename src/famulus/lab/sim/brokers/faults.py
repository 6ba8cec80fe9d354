"""What can go wrong among several brokers: any of these at any time, drawn from the seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.lab.sim.mortals import kill_client, kill_worker, pause_worker
from famulus.lab.sim.plan import plan

if TYPE_CHECKING:
    from famulus.lab.sim.brokers.broker import Broker
    from famulus.lab.sim.brokers.plug import Plug
    from famulus.lab.sim.brokers.world import World

_DAY_MS = 24 * 60 * 60 * 1000


def part_brokers(world: World) -> None:
    """Brokers on two sides; clients and workers reach all of them."""
    _part(world, list(world.brokers))


def part_clients(world: World) -> None:
    """A broker, and clients that cannot reach it."""
    _part_from_broker(world, [client.name for client in world.clients])


def part_workers(world: World) -> None:
    _part_from_broker(world, [worker.name for worker in world.workers])


def part_network(world: World) -> None:
    """Places of all kinds on two sides."""
    _part(world, [*world.brokers, *(each.name for each in (*world.clients, *world.workers))])


def _part(world: World, places: list[str]) -> None:
    side = frozenset(world.random.sample(places, world.random.randint(1, len(places) - 1)))
    world.part(side, frozenset(places) - side)


def _part_from_broker(world: World, places: list[str]) -> None:
    world.part(
        frozenset({_any_broker(world).name}), frozenset(place for place in places if world.random.random() < 0.7)
    )


def cut_link(world: World) -> None:
    if world.plugs:
        _cut(world, world.random.choice(list(world.plugs)))


def cut_client(world: World) -> None:
    """The connections of some clients; mostly of such that wait for something."""
    waiting = [client for client in world.clients if len(client.session)] or world.clients
    for client in world.random.sample(waiting, min(3, len(waiting))):
        _cut(world, client.plug)


def cut_line(world: World) -> None:
    """A connection between two brokers; mostly one with something on its way."""
    lines = [(broker, identity) for broker in world.brokers.values() for identity in broker.lines if broker.alive]
    busy = [(broker, name) for broker, name in lines if broker.core.delegates.by_identity[name].running]
    if busy or lines:
        broker, identity = world.random.choice(busy or lines)
        _cut(world, broker.lines[identity])


def cut_peers(world: World) -> None:
    """The connection of a steward to another one, both of which go on."""
    one, other = world.random.sample(list(world.brokers), 2)
    world.brokers[one].steward.cut(other)


def kill_broker(world: World) -> None:
    """Its memory is gone. Its machine may be gone as well: then nobody is told that the connections are."""
    broker = _any_broker(world)
    if broker.alive:
        notice_ns = world.random.choice([0, 1500 * NS_PER_MS])
        broker.die(notice_ns, world.random.randrange(50 * NS_PER_MS, 3 * NS_PER_S), with_steward=True)


def kill_dispatcher(world: World) -> None:
    """Its supervisor starts it again at once; the steward goes on."""
    broker = _any_broker(world)
    if broker.alive:
        broker.die(0, world.random.randrange(300 * NS_PER_MS), with_steward=False)


def pause_broker(world: World) -> None:
    """As SIGSTOP: what comes waits. Some of those who are connected lose patience."""
    broker = _any_broker(world)
    if not broker.alive or broker.paused:
        return
    pause_ns = world.random.randrange(4 * NS_PER_S)
    broker.pause(pause_ns)
    if world.random.random() < 0.5:
        broker.steward.pause(pause_ns)
    for plug in list(world.plugs):
        if plug.target == broker.name and world.random.random() < 0.3:
            _cut(world, plug)


def drain_broker(world: World) -> None:
    """As SIGTERM: it takes no more tasks, ends those that it has, goes, and is started again."""
    broker = _any_broker(world)
    if broker.alive:
        broker.core.at(world.clock.now_ns)
        broker.core.drain(world.random.randrange(2 * NS_PER_S))
        broker.wake_at(world.clock.now_ns)


def disable_broker(world: World) -> None:
    """An admin says so, to any broker."""
    world.set_state(_any_broker(world).name, world.random.choice(["disabled", "draining"]))


def overload(world: World) -> None:
    """Somebody wants very much at once."""
    client = world.random.choice(world.clients)
    for _ in range(world.random.randint(20, 60)):
        world.submit(client)


def borrow_id(world: World) -> None:
    """Clients give tasks of their own the ids of others' tasks, whether those are open or have ended."""
    owner = world.random.choice(world.clients)
    others = [client for client in world.clients if client is not owner]
    # Each id once, or a client would ask again for a task of its own.
    for _ in range(min(5, len(owner.named)) if others else 0):
        world.submit(world.random.choice(others), owner.named.pop())


def jump_clock(world: World) -> None:
    """The wall clock of a broker, by a second, by an hour, or by years, in either direction."""
    jump_ms = world.random.choice([1000, 3_600_000, 4000 * _DAY_MS])
    world.clock_errors_ms[_any_broker(world).name] += world.random.choice([-jump_ms, jump_ms])


def _any_broker(world: World) -> Broker:
    return world.random.choice(list(world.brokers.values()))


def _cut(world: World, plug: Plug) -> None:
    if plug.link is not None:
        plug.link.cut(world.random.choice([0, 200 * NS_PER_MS, 800 * NS_PER_MS]))


FAULTS: dict[Callable[[World], None], int] = {
    part_brokers: 3,
    part_clients: 3,
    part_workers: 2,
    part_network: 2,
    cut_link: 3,
    cut_client: 4,
    cut_line: 4,
    cut_peers: 2,
    kill_broker: 3,
    kill_dispatcher: 2,
    pause_broker: 2,
    drain_broker: 2,
    disable_broker: 2,
    kill_worker: 2,
    pause_worker: 2,
    kill_client: 1,
    overload: 3,
    borrow_id: 3,
    jump_clock: 2,
}


def plan_faults(world: World, until_ns: int) -> int:
    """How many there will be. Some seeds are quiet, some are wild: the quiet ones hold brokers to their word."""
    count = world.random.choice([0, 3, 8, 15, 25])
    kinds = world.random.sample(list(FAULTS), world.random.randint(4, len(FAULTS)))
    plan(world, FAULTS, kinds, count, until_ns)
    return count
