"""The dispatcher's process: drain the sockets, let the core decide, send what it says. Decides nothing itself."""

from __future__ import annotations

import gc
import secrets
from time import monotonic_ns
from typing import Any

import msgspec
import zmq

from famulus.broker.lifeline import Lifeline, serve
from famulus.broker.settings import Settings
from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.errors import ProtocolError
from famulus.net import sockets
from famulus.net.pump import recv_many, send_many
from famulus.net.waiting import Waiting
from famulus.wire import inner

BATCH_MAX = 500
REPORT_NS = 1 * NS_PER_S
#: Later than planned by more than this: we were stopped or starved, and could hear nobody.
PAUSE_NS = 1 * NS_PER_S


class DispatcherProcess:
    def __init__(self, settings: Settings, ipc: str, lifeline: Lifeline) -> None:
        self._lifeline = lifeline
        self._context = context = sockets.new_context()
        self._clients = sockets.outside_router(context, settings.bounds.body_bytes_max)
        self._workers = sockets.outside_router(context, settings.bounds.body_bytes_max)
        self.frontend_port = sockets.bind(self._clients, settings.host, settings.frontend_port, "frontend_port")
        self.backend_port = sockets.bind(self._workers, settings.host, settings.backend_port, "backend_port")
        self._routers = sockets.inside(context, zmq.ROUTER)
        self._routers.bind(f"ipc://{ipc}/task")
        self._announcements = sockets.inside(context, zmq.SUB)
        self._announcements.bind(f"ipc://{ipc}/announcements")
        declared = [name.encode() for name in settings.services]
        self._core = Dispatcher(settings.bounds, secrets.randbits(64), declared)
        self._waiting = self._waiting_for(self._clients, self._workers)
        self._waiting_unread = self._waiting_for(self._workers)
        self._waiting_for_routers = self._waiting_for()
        self._report_ns = 0
        self._stopped = False

    def _waiting_for(self, *outside: sockets.Socket) -> Waiting:
        waiting = Waiting()
        for source in (*outside, self._routers, self._announcements, self._lifeline.fd):
            waiting.watch(source)
        return waiting

    def run(self) -> None:
        core = self._core
        planned_ns = monotonic_ns()
        while not self._stopped:
            now_ns = monotonic_ns()
            if now_ns - planned_ns > PAUSE_NS:
                core.on_pause(now_ns - planned_ns)
            planned_ns = now_ns
            busy = self._read(now_ns)
            due_ns = core.next_due_ns
            if due_ns <= now_ns:
                core.on_tick(now_ns)
                busy = True
            self._flush(now_ns)
            if now_ns >= self._report_ns:
                self._report(now_ns)
            if not busy:
                planned_ns = min(due_ns, self._report_ns)
                self._sleep(planned_ns)
        self._context.destroy(linger=200)

    def _read(self, now_ns: int) -> bool:
        core = self._core
        busy = False
        for message in recv_many(self._routers, BATCH_MAX):
            self._on_router(message, now_ns)
            busy = True
        if core.reads_workers and (batch := recv_many(self._workers, BATCH_MAX)):
            core.on_workers(now_ns, batch)
            busy = True
        if core.reads_clients and (batch := recv_many(self._clients, BATCH_MAX)):
            core.on_clients(now_ns, batch)
            busy = True
        return busy

    def _on_router(self, message: list[bytes], now_ns: int) -> None:
        try:
            router, frame = message
            self._core.on_router(now_ns, router, inner.read_batch(frame))
        except (ValueError, ProtocolError):
            self._core.on_router_gone(message[0])

    def _flush(self, now_ns: int) -> None:
        core = self._core
        # What a refusal leads to is sent at once, too; each one ends a session or a router, so this ends.
        batches = core.questions.take_batches()
        while core.to_workers or core.to_clients or batches:
            if refused := _send(self._workers, core.to_workers):
                core.on_refused_workers(now_ns, refused)
            if refused := _send(self._clients, core.to_clients):
                core.on_refused_clients(refused)
            if refused := _send(self._routers, [[router, inner.write_batch(parts)] for router, parts in batches]):
                for router, _ in refused:
                    core.on_router_gone(router)
            batches = core.questions.take_batches()

    def _sleep(self, until_ns: int) -> None:
        core = self._core
        if core.reads_clients:
            waiting = self._waiting
        elif core.reads_workers:
            waiting = self._waiting_unread
        else:
            waiting = self._waiting_for_routers
        ready = waiting.wait(until_ns)
        if self._announcements in ready:
            core.on_announcements(monotonic_ns(), recv_many(self._announcements, BATCH_MAX))
        if self._lifeline.fd in ready:
            self._obey()

    def _obey(self) -> None:
        commands = self._lifeline.commands()
        if commands is None:
            self._stopped = True
            return
        for command in commands:
            if "drain_ms" in command:
                self._core.drain(monotonic_ns(), command["drain_ms"] * NS_PER_MS)

    def _report(self, now_ns: int) -> None:
        """Once a second: proof of life, and what was counted. Under load the small sockets are looked at here."""
        core = self._core
        core.on_announcements(now_ns, recv_many(self._announcements, BATCH_MAX))
        self._obey()
        self._lifeline.report(
            alive=True,
            counters=core.counters.as_dict(),
            open_tasks=core.assignment.open_tasks,
            workers=len(core.sessions.by_peer),
            routers=len(core.questions.routers),
        )
        if core.drained:
            self._lifeline.report(drained=True)
            self._stopped = True
        # A drain should not wait for the next second.
        self._report_ns = now_ns + (REPORT_NS if not core.draining else REPORT_NS // 50)


def _send(socket: sockets.Socket, messages: list[list[bytes]]) -> list[list[bytes]]:
    """Send all; give those that were refused."""
    if not messages:
        return []
    refused = [messages[index] for index, _ in send_many(socket, messages)]
    messages.clear()
    return refused


def _start(facts: dict[str, Any], lifeline: Lifeline) -> None:
    settings = msgspec.convert(facts["settings"], Settings)
    process = DispatcherProcess(settings, facts["ipc"], lifeline)
    lifeline.report(ready=True, frontend_port=process.frontend_port, backend_port=process.backend_port)
    # What is here now stays for ever, and tasks are freed by reference counts: the collector has little to find.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    process.run()


if __name__ == "__main__":
    serve(_start)
