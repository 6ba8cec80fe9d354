"""The supervisor: starts the processes of one broker, restarts those that die, drains and stops them. Sees no task.

It holds one end of each child's standard input: when the supervisor dies, however it dies, its children see the end of
file and exit too.
"""

from __future__ import annotations

import logging
import os
import resource
import secrets
import selectors
import signal
from collections.abc import Callable
from contextlib import suppress
from time import monotonic_ns
from typing import Any

import msgspec

from famulus import __version__
from famulus.broker.child import Child, Policy, WhenLost
from famulus.broker.facts import SupervisorFacts
from famulus.broker.private_folder import PrivateFolder, remove_dead
from famulus.broker.settings import Settings
from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.hangs import HANG_NS, LINGER_NS, pause_ns
from famulus.errors import BrokerFailed, SettingsError
from famulus.net import sockets
from famulus.net.pump import send_some
from famulus.wire import inner, status

log = logging.getLogger("famulus.broker")

#: A scribe may have to wait for its disk, and nobody waits for the scribe.
SCRIBE_HANG_NS = 60 * NS_PER_S
SCRIBE_STOP_S = 15.0
#: How long until we retry what the broker can do without.
RETRY_NS = 60 * NS_PER_S

#: What the system allows one process by default (fs.nr_open).
FILES_MAX = 1 << 20
FILES_FEW = 1024

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Supervisor:
    def __init__(self, settings: Settings, herald: str) -> None:
        """`herald` is the module of the process that tells people what the broker does."""
        self.settings = settings
        remove_dead()
        self._folder = PrivateFolder()
        self._ipc = self._folder.path
        self._context = sockets.new_context()
        self._announcements = sockets.inside_pub(self._context, f"ipc://{self._ipc}/announcements")
        self._dispatcher = Child("dispatcher", "famulus.broker.dispatcher", self._policy_of_dispatcher())
        self._routers = [self._new_router(f"router-{number}") for number in range(1, settings.routers + 1)]
        #: Only if the broker belongs to a network.
        self._steward = Child("steward", "famulus.broker.steward", Policy()) if settings.folder else None
        self._scribe = Child("scribe", "famulus.broker.scribe", self._policy_of_scribe()) if settings.journal else None
        #: Tells people what the broker does; nothing waits for it, and no task needs it.
        self._herald = Child("herald", herald, self._policy_of_herald()) if settings.http else None
        self._snapshots = sockets.to_herald(self._context, self._ipc, settings.http)
        self._snapshot_ns = 0
        self._started_ns = monotonic_ns()
        self._facts = SupervisorFacts(self._scribe)
        others = [child for child in (self._steward, self._scribe, self._herald) if child is not None]
        self._children = [self._dispatcher, *self._routers, *others]
        self._selector = selectors.DefaultSelector()
        self._signals: list[int] = []
        self._draining = False
        self._drained_by_ns = NEVER_NS
        self._announced = False

    # -- how each process is treated ------------------------------------------------------------------------------

    def _policy_of_dispatcher(self) -> Policy:
        def end() -> None:
            self._facts.end_life(self._dispatcher.facts.pop("told", {}))

        return Policy(lambda: {"boot": self._facts.begin_life()}, on_end=end, is_waited_for=True, ends_the_drain=True)

    def _new_router(self, name: str) -> Child:
        router_id = ""

        def facts() -> dict[str, Any]:
            # A new life has a new name: nothing that the former one was asked is taken for its own.
            nonlocal router_id
            router_id = f"{name}-{secrets.token_hex(4)}"
            return {"router_id": router_id}

        def end() -> None:
            send_some(self._announcements, [inner.write_announcement(inner.ROUTER_GONE, 0, router_id.encode())])

        return Child(name, "famulus.broker.router", Policy(facts, on_end=end))

    def _policy_of_scribe(self) -> Policy:
        return Policy(
            lambda: {"boot": self._facts.boot},
            when_lost=WhenLost.RETRIED,
            hang_ns=SCRIBE_HANG_NS,
            start_ns=SCRIBE_HANG_NS,
            stop_s=SCRIBE_STOP_S,
        )

    def _policy_of_herald(self) -> Policy:
        def facts() -> dict[str, Any]:
            # As with the other ports: a port that was "any free one" stays the same for the broker's whole life.
            assert self._herald is not None
            port = self._herald.facts.get("http_port", self.settings.http_port)
            self.settings = msgspec.structs.replace(self.settings, http_port=port)
            return {}

        return Policy(facts, when_lost=WhenLost.TOLERATED, missed="there is no HTTP port")

    # -- life ---------------------------------------------------------------------------------------------------

    def run(self, on_ready: Callable[[Settings], None]) -> None:
        """Run until a signal says so; raises BrokerFailed or SettingsError if it cannot go on."""
        wakeup = self._catch_signals()
        _allow_many_files()
        if self._scribe is not None:
            # So that anybody who looks finds an empty folder; if it cannot be made, the scribe will say so.
            with suppress(OSError):
                self._make_journal_folder()
        try:
            self._start(self._dispatcher)
            if self._steward is not None:
                self._start(self._steward)
            # Routers follow once the dispatcher has reported its ports.
            while not self._draining or self._dispatcher.running:
                planned_ns = self._wait(wakeup)
                self._obey_signals()
                self._restart_the_dead()
                self._kill_the_hanging(planned_ns)
                self._announce_ready(on_ready)
                self._tell_herald()
                self._tell_scribe()
        finally:
            self._stop(wakeup)

    def _make_journal_folder(self) -> None:
        """What clients ask for is nobody else's business. But a folder that somebody chose and opened up stays open."""
        path = self.settings.journal_path()
        if not path.exists():
            path.mkdir(0o700, parents=True)
        elif not self.settings.journal_folder and path.stat().st_mode & 0o077:
            path.chmod(0o700)
            log.warning("others could look into the journal %s; now only you can", path)

    def _wait(self, wakeup: int) -> int:
        """Listen to whoever has something to say; returns when this should have ended at the latest."""
        now_ns = monotonic_ns()
        until_ns = now_ns + NS_PER_S
        for child in self._children:
            until_ns = min(until_ns, child.start_at_ns, child.look_ns)
        for key, _ in self._selector.select(max(0.0, (until_ns - now_ns) / NS_PER_S)):
            child = key.data
            if child is None:
                os.read(wakeup, 1024)
            elif not child.hear():
                self._died(child)
        return until_ns

    # -- starting and dying -------------------------------------------------------------------------------------

    def _start(self, child: Child) -> None:
        facts = child.policy.facts()
        settings = msgspec.to_builtins(self.settings)
        common = {"ipc": self._ipc, "log_level": log.getEffectiveLevel()}
        child.start({"settings": settings, **common, **facts})
        self._facts.add("process_started", process=child.name)
        self._selector.register(child.stdout, selectors.EVENT_READ, child)

    def _died(self, child: Child) -> None:
        self._selector.unregister(child.stdout)
        how = child.bury()
        child.policy.on_end()
        if self._draining and child.policy.ends_the_drain:
            return
        self._facts.add("process_died", process=child.name, detail=child.failed or how)
        delay_ns = child.restarts.delay_ns(monotonic_ns())
        if child.failed or delay_ns is None:
            delay_ns = self._lose(child, how)
        if delay_ns is not None:
            why = child.failed or how
            log.warning("the %s died (%s); starting it again%s", child.name, why, _in_seconds(delay_ns))
            child.start_at_ns = monotonic_ns() + delay_ns

    def _lose(self, child: Child, how: str) -> int | None:
        """It cannot start, or keeps dying. Returns when to try again anyway, if the broker can go on."""
        match child.policy.when_lost:
            case WhenLost.RETRIED:
                return RETRY_NS
            case WhenLost.TOLERATED:
                why = child.failed or f"the {child.name} died ({how})"
                log.warning("%s: %s; tasks go on without", child.policy.missed, why)
                self._children.remove(child)
                return None
            case WhenLost.FATAL:
                if child.failed:
                    raise SettingsError(child.failed)
                raise BrokerFailed(f"the {child.name} died again and again (last: {how}); giving up")

    def _restart_the_dead(self) -> None:
        for child in self._children:
            if child.start_at_ns <= monotonic_ns() and not (self._draining and child.policy.ends_the_drain):
                self._start(child)

    def _kill_the_hanging(self, planned_ns: int) -> None:
        now_ns = monotonic_ns()
        # If we were stopped ourselves, we could not hear them for this long.
        absent_ns = pause_ns(now_ns, planned_ns)
        for child in self._children:
            child.seen_ns = min(child.seen_ns + absent_ns, now_ns)
        if now_ns > self._drained_by_ns:
            log.error("the dispatcher does not come to an end; killing it")
            self._drained_by_ns = NEVER_NS
            self._dispatcher.kill()
        for child in self._children:
            if child.hangs(now_ns):
                log.error("the %s says nothing any more; killing it", child.name)
                child.seen_ns = now_ns
                child.kill()

    def _announce_ready(self, on_ready: Callable[[Settings], None]) -> None:
        dispatcher = self._dispatcher
        if self._announced or not dispatcher.ready:
            return
        if any(not router.running and router.start_at_ns == NEVER_NS for router in self._routers):
            # A port that was given as "any free one" stays the same for the broker's whole life.
            ports = {key: dispatcher.facts[key] for key in ("frontend_port", "backend_port")}
            self.settings = msgspec.structs.replace(self.settings, **ports)
            for router in self._routers:
                self._start(router)
        elif dispatcher.facts.get("routers", 0) >= len(self._routers) and (
            self._steward is None or self._steward.ready
        ):
            self._announced = True
            on_ready(self.settings)
            self._facts.add("start")
            # Nobody waits for these two, so they must not get in the way of those who are waited for.
            for child in (self._scribe, self._herald):
                if child is not None:
                    self._start(child)

    # -- what people see ----------------------------------------------------------------------------------------

    def _tell_herald(self) -> None:
        now_ns = monotonic_ns()
        if self._snapshots is None or self._herald not in self._children or now_ns < self._snapshot_ns:
            return
        self._snapshot_ns = now_ns + NS_PER_S // 2
        send_some(self._snapshots, [[status.write(self._snapshot(now_ns))]])

    def _snapshot(self, now_ns: int) -> status.Supervisor:
        broker = self.settings.book().broker
        return status.Supervisor(
            identity=self.settings.identity,
            family=self.settings.family,
            version=__version__,
            frontend=broker.frontend,
            backend=broker.backend,
            network=self._steward is not None,
            draining=self._draining,
            uptime_s=(now_ns - self._started_ns) // NS_PER_S,
            routers_expected=len(self._routers),
            processes=tuple(
                status.Process(child.name, child.pid, _state(child), max(0, child.starts - 1))
                for child in self._children
            ),
            journal=self._journal(),
            plain_on_purpose=self.settings.plain_on_purpose,
        )

    def _journal(self) -> status.Journal | None:
        if self._scribe is None:
            return None
        told = self._scribe.facts
        return status.Journal(*(told.get(name, 0) for name in status.Journal.__struct_fields__))

    # -- the journal --------------------------------------------------------------------------------------------

    def _tell_scribe(self) -> None:
        steward: dict[str, Any] = self._steward.facts if self._steward is not None else {"state": "active"}
        state = "draining" if self._draining else steward.get("state", "joining")
        self._facts.tell(state, steward.get("version", 0))

    # -- the end ------------------------------------------------------------------------------------------------

    def _catch_signals(self) -> int:
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in STOP_SIGNALS:
            signal.signal(number, lambda number, _: self._signals.append(number))
        self._selector.register(reader, selectors.EVENT_READ, None)
        return reader

    def _obey_signals(self) -> None:
        while self._signals:
            self._signals.pop(0)
            if not self._draining and self._dispatcher.running:
                self._draining = True
                seconds = self.settings.drain_ms / 1000
                self._dispatcher.tell({"drain_ms": self.settings.drain_ms})
                log.info("draining: no new tasks, up to %g s for the running ones; once more stops at once", seconds)
                allowed_ns = self.settings.drain_ms * NS_PER_MS + LINGER_NS + HANG_NS
                self._drained_by_ns = monotonic_ns() + allowed_ns
            else:
                log.info("stopping at once")
                self._draining = True
                self._dispatcher.kill()

    def _stop(self, wakeup: int) -> None:
        for child in self._children:
            if child.running and not child.policy.stop_s:
                child.kill()
                child.bury()
                child.policy.on_end()
        self._facts.add("stop")
        self._tell_scribe()
        for child in self._children:
            if child.running:
                # It writes what is left, and exits by itself.
                child.bury(child.policy.stop_s)
        counters = self._dispatcher.facts.get("counters")
        if counters:
            counted = ", ".join(f"{name} {count}" for name, count in counters.items() if count)
            log.info("stopped; %s", counted or "there was nothing to do")
        signal.set_wakeup_fd(-1)
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        self._selector.close()
        os.close(wakeup)
        self._context.destroy(linger=0)
        self._folder.remove()


def _state(child: Child) -> str:
    if not child.running:
        return "dead"
    return "ready" if child.ready else "starting"


def _allow_many_files() -> None:
    """Every connection is a file, for which the usual limit is low; we may raise it up to the hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    if limit < FILES_FEW:
        log.warning("at most %d files may be open: beyond that many connections, new ones have to wait", limit)


def _in_seconds(delay_ns: int) -> str:
    return f" in {delay_ns / NS_PER_S:g} s" if delay_ns else ""
