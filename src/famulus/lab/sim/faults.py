"""What can go wrong, and a plan of it: any of these at any time, drawn from the seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.lab.sim.mortals import kill_client, kill_worker, pause_worker
from famulus.lab.sim.plan import plan
from famulus.wire import inner

if TYPE_CHECKING:
    from famulus.lab.sim.world import World


#: By then a lost router is known, a dead process is there again and everybody has connected anew.
RECOVERY_NS = 2 * NS_PER_S


def drain_worker(world: World) -> None:
    """SIGTERM: it answers what it has, and goes."""
    if world.workers:
        worker = world.random.choice(world.workers)
        worker.session.drain(world.clock.now_ns)
        worker.wake_at(world.clock.now_ns)


def restart_worker(world: World) -> None:
    """It is killed, and started again under its name before anybody has noticed."""
    if world.workers:
        worker = world.random.choice(world.workers)
        worker.kill()
        world.restart_worker(worker)


def steal_name(world: World) -> None:
    """Somebody connects under the name of a worker."""
    if world.workers:
        world.spawn_thief(world.random.choice(world.workers))


def pause_client(world: World) -> None:
    client = world.random.choice(world.clients)
    client.pause(world.random.randrange(2 * NS_PER_S))
    world.ledger.disturb(client)


def kill_router(world: World) -> None:
    """The supervisor starts another one, and mostly its word that this one is gone arrives."""
    if not world.routers:
        return
    router = world.random.choice(world.routers)
    peer = router.link.peer if router.link is not None else b""
    router.kill()
    world.routers.remove(router)
    if world.random.random() < 0.7:
        world.announce(inner.ROUTER_GONE, peer)
    world.clock.after(world.random.randrange(200 * NS_PER_MS), world.spawn_router)
    _disturb_broker(world, 0)


def pause_router(world: World) -> None:
    if not world.routers:
        return
    router = world.random.choice(world.routers)
    pause_ns = world.random.randrange(3 * NS_PER_S)
    router.pause(pause_ns)
    _disturb_broker(world, pause_ns)


def kill_dispatcher(world: World) -> None:
    if world.broker.alive:
        world.broker.die()
        _disturb_broker(world, 0)


def pause_dispatcher(world: World) -> None:
    if world.broker.alive and not world.broker.paused:
        pause_ns = world.random.randrange(3 * NS_PER_S)
        world.broker.pause(pause_ns)
        _disturb_broker(world, pause_ns)


def cut_link(world: World) -> None:
    peer = world.random.choice([*world.workers, *world.clients])
    if peer.link is not None:
        peer.link.cut()
        world.ledger.disturb(peer)


def send_rubbish(world: World) -> None:
    """Somebody who is up to no good, at either door."""
    somebody = world.random.choice([*world.workers, *world.clients])
    if somebody.link is None:
        return
    for _ in range(world.random.randint(1, 8)):
        frames = [world.random.randbytes(world.random.randrange(12)) for _ in range(world.random.randint(0, 5))]
        somebody.link.to_broker(frames)


def _disturb_broker(world: World, pause_ns: int) -> None:
    world.ledger.disturb(quiet_from_ns=world.clock.now_ns + pause_ns + RECOVERY_NS)


FAULTS: dict[Callable[[World], None], int] = {
    kill_worker: 4,
    pause_worker: 3,
    drain_worker: 2,
    restart_worker: 2,
    steal_name: 3,
    kill_client: 1,
    pause_client: 1,
    kill_router: 2,
    pause_router: 2,
    kill_dispatcher: 1,
    pause_dispatcher: 1,
    cut_link: 2,
    send_rubbish: 1,
}


def plan_faults(world: World, until_ns: int) -> None:
    """Some seeds are quiet, some are wild: the quiet ones hold the broker to its word about time."""
    count = world.random.choice([0, 1, 3, 10, 25])
    kinds = world.random.sample(list(FAULTS), world.random.randint(1, len(FAULTS)))
    plan(world, FAULTS, kinds, count, until_ns)
