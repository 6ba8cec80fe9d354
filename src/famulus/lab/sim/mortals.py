"""Faults that workers and clients suffer in every world that has some."""

from __future__ import annotations

from random import Random
from typing import Protocol, TypeVar

from famulus.core.clock import NS_PER_S


class Mortal(Protocol):
    def kill(self) -> None: ...

    def pause(self, for_ns: int) -> None: ...


Worker = TypeVar("Worker", bound=Mortal)
Client = TypeVar("Client", bound=Mortal)


class Peopled(Protocol[Worker, Client]):
    random: Random
    workers: list[Worker]
    clients: list[Client]

    def respawn_worker(self, worker: Worker, /) -> None: ...

    def spawn_client(self) -> None: ...


def kill_worker(world: Peopled[Worker, Client]) -> None:
    if world.workers:
        worker = world.random.choice(world.workers)
        worker.kill()
        world.respawn_worker(worker)


def pause_worker(world: Peopled[Worker, Client]) -> None:
    if world.workers:
        world.random.choice(world.workers).pause(world.random.randrange(4 * NS_PER_S))


def kill_client(world: Peopled[Worker, Client]) -> None:
    client = world.random.choice(world.clients)
    client.kill()
    world.clients.remove(client)
    world.spawn_client()
