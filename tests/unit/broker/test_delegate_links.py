"""The links to brokers that help: one that is made anew costs nobody the answer that is still owed over the former."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from time import monotonic_ns

import pytest
import zmq

from famulus.broker.delegate_links import DelegateLinks
from famulus.core.clock import NS_PER_S
from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.dispatch.flows import Flow
from famulus.core.dispatch.task import Task
from famulus.net import sockets
from famulus.net.waiting import Waiting
from famulus.wire import headers, inner
from famulus.wire.curve import KEY_BYTES, CurveKey

TERMS = inner.Terms(60_000, 4, False, 1, 100, 10_000, 1000)


class Bee:
    """Another broker, without keys."""

    def __init__(self, context: sockets.Context) -> None:
        self.socket = context.socket(zmq.ROUTER)
        self.frontend = f"tcp://127.0.0.1:{self.socket.bind_to_random_port('tcp://127.0.0.1')}"

    def gets(self) -> list[bytes]:
        assert self.socket.poll(10_000)
        return self.socket.recv_multipart()


class Here:
    """The core and its links, looked after until something has happened."""

    def __init__(self, context: sockets.Context, bee: Bee) -> None:
        self.bee = bee
        self.waiting = Waiting(once=True)
        self.links = DelegateLinks(context, self.waiting, CurveKey(os.urandom(KEY_BYTES)))
        self.core = Dispatcher(Bounds(), 1, [b"echo"])
        self.offers = [("bee", bee.frontend, 0, {"echo": 1})]
        self.outcomes: list[list[bytes]] = []
        self.follow()
        self.delegate = self.core.delegates.by_identity[b"bee"]

    def follow(self, key: bytes = b"") -> None:
        self.core.on_peers("here", self.offers)
        self.links.follow(self.core, {b"bee": key} if key else {})

    def ask(self) -> None:
        core = self.core
        flow = Flow(core.services.by_name[b"echo"], TERMS, b'{"request":"TASK"', b'{"request":"TASK"')
        core.assignment.accept(Task(core.accounts.others, b"ann", b"e", b"body", core.now.ns, flow, b'"mine"', 0))
        self.flush()

    def flush(self) -> None:
        while (out := self.core.take()) is not None:
            self.outcomes += out.clients
            assert all(self.links.send(identity, task) for identity, task in out.delegates)

    def until(self, happened: Callable[[], object]) -> None:
        end_ns = monotonic_ns() + 10 * NS_PER_S
        while not happened():
            assert monotonic_ns() < end_ns
            self.core.at(monotonic_ns())
            self.links.read(self.core)
            self.flush()
            if not happened():
                for inlet in self.waiting.wait(monotonic_ns() + NS_PER_S // 10):
                    inlet.look = True


@pytest.fixture
def here() -> Iterator[Here]:
    context = sockets.new_context()
    here = Here(context, Bee(context))
    yield here
    context.destroy(linger=0)


def test_what_is_owed_over_a_link_without_a_key_comes_after_there_is_one_with_a_key(here: Here) -> None:
    here.until(lambda: here.delegate.up)
    here.ask()
    peer, ticket, *_ = here.bee.gets()
    here.follow(os.urandom(KEY_BYTES))
    assert len(here.links._all) == 2
    answer = headers.write("TASK", "RESPONSE", service="echo", message_id="mine", outcome="ERROR", reason="no")
    here.bee.socket.send_multipart([peer, ticket, answer, b""])
    here.until(lambda: not here.delegate.running)
    assert here.core.counters.late == 0
    # Then it is closed; the one with a key is still trying.
    here.follow(here.links._links[b"bee"].link.key)
    assert [bool(each.link.key) for each in here.links._all] == [True]


def test_a_former_link_that_is_lost_leaves_its_tasks_in_doubt(here: Here) -> None:
    here.until(lambda: here.delegate.up)
    here.ask()
    here.bee.gets()
    here.follow(os.urandom(KEY_BYTES))
    here.bee.socket.close(0)
    here.until(lambda: here.outcomes)
    assert b"worker_lost" in here.outcomes[0][2]
    assert not here.delegate.up
