"""One run of a worker: the I/O between the broker and the runners, and the quick functions.

The link, the session and all else here belong to the thread that holds the baton; calls and answers pass between it
and the runners in batches, and a bell wakes it. Functions that were quick so far it calls itself. If one of them is
not, another thread goes on with the I/O: a function, however long it takes, never keeps a heartbeat waiting.

Waits until something is there or due; looks at the link, takes in messages, starts calls, sends answers; and again.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from threading import Event
from time import monotonic_ns
from typing import Final

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.session.homes import Homes
from famulus.core.session.worker import Given, State, WorkerSession
from famulus.errors import FamulusError, SettingsError
from famulus.net.addresses import BACKEND
from famulus.net.link import BATCH_MAX, Change, Link
from famulus.net.sockets import new_context, outside_dealer
from famulus.net.waiting import Bell, Waiting
from famulus.wire import reasons
from famulus.worker.baton import Baton
from famulus.worker.calls import Answer, Call, perform
from famulus.worker.news import News
from famulus.worker.probe import Probe
from famulus.worker.runner import Runner
from famulus.worker.saved_config import SavedConfig
from famulus.worker.services import Services
from famulus.worker.settings import Settings
from famulus.worker.threads import Threads

#: No answer waits longer than about this for the functions that are run after its own.
HOLD_NS: Final = NS_PER_MS

log = logging.getLogger("famulus.worker")


class Ending:
    """What others want: set by them, from any thread, before they ring the bell."""

    def __init__(self) -> None:
        self.soon = False
        self.now = False


class Shift:
    def __init__(
        self,
        settings: Settings,
        services: Services,
        bell: Bell,
        ending: Ending,
        runners: list[Runner],
    ) -> None:
        """`runners` are the one for plain functions and, where there are any, the one for async functions."""
        self._settings = settings
        self._services = services
        self._bell = bell
        self._ending = ending
        self._runners = runners
        #: Quick functions need no thread of its own, but processes are there for a reason.
        self._threads = runners[0] if isinstance(runners[0], Threads) else None
        self._baton = Baton(self._lead)
        #: Quick calls that the holder of the baton is about to run.
        self._here: deque[Call] = deque()
        self._finished = Event()
        self._error: BaseException | None = None
        self._saved = SavedConfig(settings.config_file)
        self._config = b""
        self._homes = self._known_homes()
        self._session = WorkerSession(
            settings.identity, services.names, settings.capacity, settings.heartbeat_ms, random.random, self._homes
        )
        #: Calls that were started and not yet answered by their function.
        self.running = 0
        #: Answers that need no function.
        self._refusals: list[Answer] = []
        self._news = News(settings, self._session, monotonic_ns())
        self._drained_by_ns = NEVER_NS
        self._context = new_context()
        self._waiting = Waiting()
        self._waiting.watch(bell.fd)
        # We sent, or did not read to the end: there may be something that no descriptor tells of (see `Waiting`).
        self._look_again = True
        self._stuck = False
        self._probe: Probe | None = None
        try:
            self._link = self._link_to(self._homes.next())
            self._session.on_linking(monotonic_ns())
        except BaseException:
            self._context.term()
            raise

    def run(self) -> bool:
        """Until drained or told to stop. True if no task was given up."""
        self._baton.start()
        self._finished.wait()
        if self._error is not None:
            raise self._error
        return not self.running

    def close(self) -> bool:
        """False if a function did not come back, and may still do so later."""
        ended = self._baton.close()
        if self._probe is not None:
            self._probe.close()
        self._link.close()
        self._context.term()
        self._waiting.close()
        return ended

    def _lead(self, turn: int) -> None:
        """What the holder of the baton does, from the first turn on or from where another one got stuck."""
        try:
            if turn > 1:
                self._take_over()
            while not self._over():
                ready = self._waiting.wait(0 if self._look_again else self._next_due_ns())
                if self._bell.fd in ready:
                    self._bell.answer()
                now_ns = monotonic_ns()
                if self._link.monitor in ready or not self._link.up:
                    self._follow_link(now_ns)
                if not self._pass(now_ns, turn):
                    return
        except BaseException as error:
            self._error = error
        self._finished.set()

    def _take_over(self) -> None:
        """The one before us is in a function that was not quick; what it left behind goes to the threads."""
        assert self._threads is not None
        left = list(self._here)
        self._here.clear()
        self.running += 1 + len(left)
        self._threads.adopt()
        self._threads.start(left)

    # -- one pass -----------------------------------------------------------------------------------------------

    def _pass(self, now_ns: int, turn: int) -> bool:
        """False if another one has the baton now, and nothing here is ours any more."""
        session = self._session
        while batch := self._link.recv():
            self._look_again = whole = len(batch) >= BATCH_MAX
            given = session.on_messages(now_ns, batch)
            if given:
                self._start(given, now_ns)
                if self._here and not self._run_here(turn):
                    return False
            self._send()
            # Whoever sent must look again, which costs less here than after another wait. But there is more to do.
            if whole or not self._look_again:
                break
        else:
            self._look_again = False
        self._answer(now_ns)
        if self._ending.soon:
            self._drain(now_ns)
        if session.config is not self._config:
            self._config = session.config
            self._saved.write(session.config)
        session.on_tick(now_ns)
        if self._homes.next_due_ns < NEVER_NS or self._probe is not None:
            self._look_home(now_ns)
        self._news.tell(now_ns, self._link, self._ending.soon)
        self._relink(now_ns)
        self._send()
        return True

    def _follow_link(self, now_ns: int) -> None:
        for change in self._link.changes():
            if change is Change.UP:
                self._session.on_link(now_ns)
            else:
                self._session.on_link_lost(now_ns)

    def _start(self, given: list[Given], now_ns: int) -> None:
        find = self._services.get
        sync_calls: list[Call] = []
        async_calls: list[Call] = []
        for each in given:
            request = each.task
            service = find(request.service)
            if service is None:
                reason = reasons.reason(reasons.NO_SERVICE, f"this worker does not do {request.service!r}"[:200])
                self._refusals.append(Answer(each, reason, b""))
                continue
            left_ms = request.timeout_ms
            call = Call(each, service, NEVER_NS if left_ms is None else now_ns + left_ms * NS_PER_MS)
            if service.asynchronous:
                async_calls.append(call)
            elif self._threads is not None and service.pace.quick:
                self._here.append(call)
            else:
                sync_calls.append(call)
        for runner, calls in zip(self._runners, (sync_calls, async_calls), strict=False):
            if calls:
                self.running += len(calls)
                runner.start(calls)

    def _run_here(self, turn: int) -> bool:
        """Call quick functions. False if one was not, and another thread has the baton now."""
        baton, here = self._baton, self._here
        sent_ns = began_ns = monotonic_ns()
        while here:
            call = here.popleft()
            baton.out(began_ns)
            answer = perform(call)
            ended_ns = monotonic_ns()
            call.service.pace.note(ended_ns - began_ns)
            if not baton.back(turn):
                assert self._threads is not None
                self._threads.bring(answer)
                return False
            self._hand_in(answer)
            if ended_ns - sent_ns > HOLD_NS:
                self._send()
                sent_ns = ended_ns
            began_ns = ended_ns
        return True

    def _answer(self, now_ns: int) -> None:
        for runner in self._runners:
            answers = runner.take(now_ns)
            if answers:
                self.running -= len(answers)
                for answer in answers:
                    self._hand_in(answer)
            if runner.failure:
                raise FamulusError(runner.failure)
        if self._refusals:
            for answer in self._refusals:
                self._hand_in(answer)
            self._refusals.clear()

    def _hand_in(self, answer: Answer) -> None:
        given, reason = answer.given, answer.reason
        if not self._session.answer(given.ticket, given.task, "ERROR" if reason else "OK", reason, answer.body):
            log.debug("the answer to task %s comes after its broker was lost", given.task.message_id)

    def _send(self) -> None:
        """What the link does not take now stays; its descriptor tells when there is room again."""
        outbox = self._session.outbox
        if outbox and self._link.up:
            taken = self._link.send(outbox)
            del outbox[:taken]
            # After a refusal, too, but not for ever.
            self._look_again = self._look_again or taken > 0 or not self._stuck
            self._stuck = taken == 0

    # -- the link -----------------------------------------------------------------------------------------------

    def _known_homes(self) -> Homes:
        settings = self._settings
        least_s, most_s = settings.return_after_s
        homes = Homes(
            settings.addresses or (BACKEND,),
            random.random,
            chosen=bool(settings.addresses),
            return_after_ns=(int(least_s * NS_PER_S), int(most_s * NS_PER_S)),
        )
        saved = self._saved.read()
        if saved is not None:
            homes.on_config(0, saved)
        return homes

    def _link_to(self, address: str) -> Link:
        """A link to this broker, or to the next one if the address is no good: somebody else may have told us of it."""
        while True:
            try:
                link = Link(self._context, address, outside_dealer(self._context, heartbeats=False))
            except SettingsError as error:
                if self._homes.alone:
                    raise
                log.warning("%s", error)
                self._homes.forget(address)
                address = self._homes.next()
            else:
                self._waiting.watch(link.socket)
                self._waiting.watch(link.monitor)
                return link

    def _relink(self, now_ns: int) -> None:
        """The session gave the broker up. Where libzmq has noticed too, it connects again by itself."""
        session, former = self._session, self._link
        if session.relink_at_ns > now_ns or session.state is not State.OFFLINE:
            return
        self._news.note(former)
        address = self._homes.next()
        if former.up or address != former.address:
            self._waiting.forget(former.socket)
            self._waiting.forget(former.monitor)
            former.close()
            self._link = self._link_to(address)
        session.on_linking(now_ns)

    def _look_home(self, now_ns: int) -> None:
        """Away from the preferred broker: look whether it is there, and go back to it."""
        homes, session, probe = self._homes, self._session, self._probe
        if probe is None:
            if homes.probe_at_ns > now_ns:
                return
            homes.on_probe(now_ns)
            probe = self._probe = Probe(self._context, self._waiting, homes.preferred)
        there = probe.answer()
        if there is None and now_ns < homes.probe_by_ns < NEVER_NS:
            return
        probe.close()
        self._probe = None
        if there and session.move():
            homes.on_probe_answered()
        else:
            homes.on_probe_failed(now_ns)

    # -- beginning and end --------------------------------------------------------------------------------------

    def _next_due_ns(self) -> int:
        due_ns = min(self._session.next_due_ns, self._drained_by_ns, self._homes.next_due_ns, self._news.due_ns)
        for runner in self._runners:
            due_ns = min(due_ns, runner.next_due_ns)
        return due_ns

    def _over(self) -> bool:
        if self._ending.now or self._drained_by_ns <= monotonic_ns():
            if self.running:
                gone = "1 task is" if self.running == 1 else f"{self.running} tasks are"
                log.warning("worker %s stops; %s given up", self._settings.identity, gone)
            return True
        return self._session.state is State.GONE and not self.running

    def _drain(self, now_ns: int) -> None:
        if self._drained_by_ns == NEVER_NS:
            self._drained_by_ns = now_ns + int(self._settings.drain_s * NS_PER_S)
            count = f"{self.running} task{'' if self.running == 1 else 's'}"
            log.info("worker %s drains: %s running", self._settings.identity, count)
            self._session.drain(now_ns)
