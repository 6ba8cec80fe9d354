"""What can go wrong with those who carry tasks, at one broker or among several: any of these, drawn from the seed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.config.schema import State
from famulus.core.rights import allows
from famulus.lab.sim.network import Plug
from famulus.lab.sim.tasks.broker import Broker
from famulus.lab.sim.tasks.holders import Holder
from famulus.lab.sim.tasks.setting import OFFERED
from famulus.lab.sim.tasks.steward import StewardActor
from famulus.lab.sim.tasks.strangers import Thief
from famulus.lab.sim.tasks.workload import Tasks
from famulus.wire import headers, inner

Fault = Callable[[Tasks], None]
PARTED_NS_MAX = 3 * NS_PER_S


# -- workers and clients ------------------------------------------------------------------------------------------


def kill_worker(tasks: Tasks) -> None:
    if tasks.workers:
        worker = tasks.random.choice(tasks.workers)
        worker.kill()
        tasks.replace_worker(worker)


def pause_worker(tasks: Tasks) -> None:
    if tasks.workers:
        tasks.random.choice(tasks.workers).pause(tasks.random.randrange(4 * NS_PER_S))


def drain_worker(tasks: Tasks) -> None:
    """SIGTERM: it answers what it has, and leaves."""
    if tasks.workers:
        worker = tasks.random.choice(tasks.workers)
        worker.session.drain(tasks.clock.now_ns)
        worker.wake_at(tasks.clock.now_ns)


def drain_by_config(tasks: Tasks) -> None:
    """An admin says so at any broker; later it is taken back, perhaps at one that has not heard of it yet."""
    there = tasks.admin.stewards()
    serving = [(worker, tasks.family_of(worker)) for worker in tasks.workers]
    known = [(worker, family) for worker, family in serving if family]
    if there and known:
        (worker, family), steward = tasks.random.choice(known), tasks.random.choice(there)
        key = f"worker/{worker.name}"
        steward.edit(key, {"family": family, "state": "drained"})
        undone = tasks.random.choice([None, {"family": family, "state": "active"}])
        back = partial(tasks.edit_somewhere, key, undone)
        tasks.clock.after(tasks.random.randrange(3 * NS_PER_S), back)


def restart_worker(tasks: Tasks) -> None:
    """It is killed, and started again under its name before anybody has noticed."""
    if tasks.workers:
        worker = tasks.random.choice(tasks.workers)
        worker.kill()
        tasks.workers.remove(worker)
        tasks.hire(worker.name, worker.trade)


def steal_name(tasks: Tasks) -> None:
    """Somebody connects under the name of a worker."""
    if tasks.workers:
        Thief(tasks.world, tasks.ledger, tasks.world.new_name("thief"), tasks.random.choice(tasks.workers))


def kill_client(tasks: Tasks) -> None:
    client = tasks.random.choice(tasks.clients)
    client.kill()
    tasks.clients.remove(client)
    tasks.spawn_client()


def pause_client(tasks: Tasks) -> None:
    tasks.random.choice(tasks.clients).pause(tasks.random.randrange(2 * NS_PER_S))


def send_rubbish(tasks: Tasks) -> None:
    """Somebody who is up to no good, at either door."""
    plug = tasks.random.choice([*(each.plug for each in tasks.workers), *(each.plug for each in tasks.clients)])
    for _ in range(tasks.random.randint(1, 8)):
        plug.send([[tasks.random.randbytes(tasks.random.randrange(12)) for _ in range(tasks.random.randint(0, 5))]])


def overload(tasks: Tasks) -> None:
    """Somebody wants a lot at once."""
    client = tasks.random.choice(tasks.clients)
    for _ in range(tasks.random.randint(20, 60)):
        tasks.submit(client)


def borrow_id(tasks: Tasks) -> None:
    """Clients give tasks of their own the ids of others' tasks, whether those are open or have ended."""
    owner = tasks.random.choice(tasks.clients)
    others = [client for client in tasks.clients if client is not owner]
    # Each id once, or a client would ask again for a task of its own.
    for _ in range(min(5, len(owner.named)) if others else 0):
        tasks.submit(tasks.random.choice(others), owner.named.pop())


# -- connections --------------------------------------------------------------------------------------------------


def part_brokers(tasks: Tasks) -> None:
    """Brokers on two sides; clients and workers reach all of them."""
    tasks.world.part(list(tasks.brokers), PARTED_NS_MAX)


def part_clients(tasks: Tasks) -> None:
    """A broker, and clients that cannot reach it."""
    _part_from_broker(tasks, [client.name for client in tasks.clients])


def part_workers(tasks: Tasks) -> None:
    _part_from_broker(tasks, [worker.name for worker in tasks.workers])


def part_network(tasks: Tasks) -> None:
    """Places of all kinds on two sides."""
    places = [*tasks.brokers, *(each.name for each in (*tasks.clients, *tasks.workers))]
    tasks.world.part(places, PARTED_NS_MAX)


def _part_from_broker(tasks: Tasks, places: list[str]) -> None:
    apart = frozenset(place for place in places if tasks.random.random() < 0.7)
    tasks.world.part_from({_any_broker(tasks).name}, apart, PARTED_NS_MAX)


def cut_link(tasks: Tasks) -> None:
    plugs = [plug for plug in tasks.world.network.plugs if plug.door != "router"]
    if plugs:
        _cut(tasks, tasks.random.choice(plugs))


def cut_client(tasks: Tasks) -> None:
    """The connections of some clients; mostly of those that are waiting for something."""
    waiting = [client for client in tasks.clients if len(client.session)] or tasks.clients
    for client in tasks.random.sample(waiting, min(3, len(waiting))):
        _cut(tasks, client.plug)


def cut_line(tasks: Tasks) -> None:
    """A connection between two brokers; mostly one with something on its way."""
    lines = [(broker, identity) for broker in tasks.brokers.values() for identity in broker.lines if broker.alive]
    busy = [(broker, name) for broker, name in lines if broker.core.delegates.by_identity[name].running]
    if busy or lines:
        broker, identity = tasks.random.choice(busy or lines)
        _cut(tasks, broker.lines[identity])


def cut_peers(tasks: Tasks) -> None:
    """The connection of a steward to another one; both of them go on."""
    one, other = tasks.random.sample(list(tasks.brokers), 2)
    tasks.brokers[one].steward.cut(other)


def _cut(tasks: Tasks, plug: Plug) -> None:
    if plug.link is not None:
        plug.link.cut(tasks.random.choice([0, 200 * NS_PER_MS, 800 * NS_PER_MS]))
        tasks.ledger.disturb(plug.owner)


# -- brokers ------------------------------------------------------------------------------------------------------


def kill_broker(tasks: Tasks) -> None:
    """Its memory is gone. Its machine may be gone as well: then nobody is told that the connections are."""
    notice_ns = tasks.random.choice([0, 1500 * NS_PER_MS])
    _kill(tasks, notice_ns, tasks.random.randrange(50 * NS_PER_MS, 3 * NS_PER_S), with_steward=True)


def kill_dispatcher(tasks: Tasks) -> None:
    """Its supervisor starts it again at once; the steward goes on."""
    _kill(tasks, 0, tasks.random.randrange(300 * NS_PER_MS), with_steward=False)


def _kill(tasks: Tasks, notice_ns: int, away_ns: int, *, with_steward: bool) -> None:
    broker = _any_broker(tasks)
    if broker.alive:
        broker.die(notice_ns, away_ns, with_steward=with_steward)
        tasks.disturb_brokers(notice_ns + away_ns)


def pause_dispatcher(tasks: Tasks) -> None:
    """Like SIGSTOP: what comes waits."""
    _pause(tasks, _any_broker(tasks), tasks.random.randrange(3 * NS_PER_S))


def pause_broker(tasks: Tasks) -> None:
    """With or without its steward. Some of those who are connected lose patience."""
    broker, pause_ns = _any_broker(tasks), tasks.random.randrange(4 * NS_PER_S)
    if not _pause(tasks, broker, pause_ns):
        return
    if tasks.random.random() < 0.5:
        broker.steward.pause(pause_ns)
    for plug in list(tasks.world.network.plugs):
        if plug.target == broker.name and tasks.random.random() < 0.3:
            _cut(tasks, plug)


def _pause(tasks: Tasks, broker: Broker, pause_ns: int) -> bool:
    if not broker.alive or broker.paused:
        return False
    broker.pause(pause_ns)
    tasks.disturb_brokers(pause_ns)
    return True


def kill_router(tasks: Tasks) -> None:
    """The supervisor starts another one, and mostly its announcement that this one is gone arrives."""
    if not tasks.routers:
        return
    router = tasks.random.choice(tasks.routers)
    peer = router.plug.link.peer if router.plug.link is not None else b""
    router.kill()
    tasks.routers.remove(router)
    if tasks.random.random() < 0.7:
        router.broker.announce(inner.ROUTER_GONE, 0, peer)
    tasks.clock.after(tasks.random.randrange(200 * NS_PER_MS), lambda: tasks.spawn_router(router.broker))
    tasks.disturb_brokers(0)


def pause_router(tasks: Tasks) -> None:
    if tasks.routers:
        pause_ns = tasks.random.randrange(3 * NS_PER_S)
        tasks.random.choice(tasks.routers).pause(pause_ns)
        tasks.disturb_brokers(pause_ns)


def drain_broker(tasks: Tasks) -> None:
    """Like SIGTERM: it takes no more tasks, finishes those that it has, leaves, and is started again."""
    broker = _any_broker(tasks)
    if broker.alive:
        broker.core.at(tasks.clock.now_ns)
        broker.core.drain(tasks.random.randrange(2 * NS_PER_S))
        broker.wake_at(tasks.clock.now_ns)


def disable_broker(tasks: Tasks) -> None:
    """An admin says so, at any broker that is there."""
    name = _any_broker(tasks).name
    states: tuple[State, ...] = ("disabled", "draining")
    there = [broker.steward for broker in tasks.brokers.values() if broker.steward.alive]
    if there:
        steward, state = tasks.random.choice(there), tasks.random.choice(states)
        steward.edit(f"broker_state/{name}", {"state": state})


def jump_clock(tasks: Tasks) -> None:
    """The wall clock of a broker, which must not matter."""
    tasks.world.jump_wall_clock(_any_broker(tasks).name)


# -- rights -------------------------------------------------------------------------------------------------------


def revoke_principal(tasks: Tasks) -> None:
    """An admin removes it, at any broker; later it may come again."""
    _edit_rights(tasks, [tasks.admin.revoke])


def narrow_rights(tasks: Tasks) -> None:
    _edit_rights(tasks, [tasks.admin.narrow])


def widen_rights(tasks: Tasks) -> None:
    """Whatever was taken away is given back."""
    _edit_rights(tasks, [tasks.admin.allow])


def rotate_key(tasks: Tasks) -> None:
    _edit_rights(tasks, [tasks.admin.rotate])


def contradict_rights(tasks: Tasks) -> None:
    """Two admins say different things about one principal, at brokers that cannot hear each other."""
    part_brokers(tasks)
    actions = [tasks.admin.revoke, tasks.admin.narrow, tasks.admin.rotate]
    _edit_rights(tasks, tasks.random.sample(actions, 2))


def revoke_apart(tasks: Tasks) -> None:
    """Some brokers do not hear of it for a while."""
    part_brokers(tasks)
    revoke_principal(tasks)


def narrow_unheard(tasks: Tasks) -> None:
    """A broker whose steward is stuck does not hear of it, and passes on what others may not take any more."""
    client = tasks.random.choice(tasks.clients)
    stuck = tasks.brokers[client.plug.target].steward
    others = [steward for steward in tasks.admin.stewards() if steward is not stuck]
    if others and client.holder in tasks.holders:
        stuck.pause(3 * NS_PER_S)
        tasks.admin.narrow(tasks.random.choice(others), client.holder)
        # More than its broker has slots for, when the others have heard of it.
        for _ in range(20):
            tasks.clock.after(NS_PER_S, partial(tasks.submit, client))


def speak_for_another(tasks: Tasks) -> None:
    """A client says that it is a broker, and passes a task on for somebody who may do more."""
    client = tasks.random.choice(tasks.clients)
    wanted = [service for service in OFFERED if not allows(client.holder.rights.call, service)] or OFFERED
    service = tasks.random.choice(wanted)
    holder = tasks.random.choice([each for each in tasks.holders if allows(each.rights.call, service)])
    for _ in range(3):
        body = tasks.note_strange_task(client.holder, service)
        word = {"service": service, "timeout_ms": 1000, "via": ["elsewhere"], "principal": holder.name}
        client.plug.send([[body, headers.write("TASK", "REQUEST", **word), body]])


def _edit_rights(tasks: Tasks, actions: list[Callable[[StewardActor, Holder], None]]) -> None:
    """Each at another broker, if there are enough."""
    holder, there = tasks.random.choice(tasks.holders), tasks.admin.stewards()
    stewards = tasks.random.sample(there, min(len(actions), len(there)))
    for steward, act in zip(stewards, actions, strict=False):
        act(steward, holder)


def _any_broker(tasks: Tasks) -> Broker:
    return tasks.random.choice(list(tasks.brokers.values()))


#: With how often they strike, relative to each other.
OF_ONE_BROKER: dict[Fault, int] = {
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
OF_SEVERAL_BROKERS: dict[Fault, int] = {
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
    drain_by_config: 3,
    kill_client: 1,
    overload: 3,
    borrow_id: 3,
    jump_clock: 2,
}
#: Of those who have principals.
OF_RIGHTS: dict[Fault, int] = {
    revoke_principal: 3,
    narrow_rights: 3,
    widen_rights: 1,
    rotate_key: 4,
    contradict_rights: 2,
    revoke_apart: 2,
    narrow_unheard: 3,
    speak_for_another: 3,
    part_brokers: 1,
    cut_client: 2,
    cut_line: 1,
    kill_broker: 1,
    kill_dispatcher: 1,
    pause_broker: 1,
    kill_worker: 1,
    kill_client: 1,
}
