"""One run of a worker: the I/O between its places at brokers and the runners, and the quick functions.

The places, with their lines and sessions, and everything else here belong to the thread that does the I/O; calls and
answers pass between it and the runners in batches, and a bell wakes it. It calls functions that have been quick so far
itself. If one of them turns out slow, another thread continues with the I/O: a function, however long it takes, never
keeps a heartbeat waiting.

In a loop, it waits until something arrives or is due, reads messages, checks the lines, starts calls and sends answers.
"""

from __future__ import annotations

import logging
from collections import deque
from threading import Event
from time import monotonic_ns
from typing import Final

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.session.header_cache import Given
from famulus.core.session.worker import SessionState
from famulus.errors import BrokerUnreachable, FamulusError
from famulus.net.waiting import Bell, Waiting
from famulus.wire import reasons
from famulus.worker.batches import Batches
from famulus.worker.calls import NOT_BEGUN, Answer, BatchAnswer, Call, ended_as, my_current, perform
from famulus.worker.handoff import Handoff
from famulus.worker.news import REMEDY
from famulus.worker.place import Place, places_of
from famulus.worker.progress import ProgressReports
from famulus.worker.runner import Runner
from famulus.worker.service import Service
from famulus.worker.services import Services
from famulus.worker.settings import WorkerSettings
from famulus.worker.stream_call import NO_CREDIT
from famulus.worker.streams import Streams
from famulus.worker.threads import Threads

# Final, so that compiled code does not look it up each time.
clock_ns: Final = monotonic_ns

#: No answer waits much longer than this for the functions that run after its own.
HOLD_NS: Final = NS_PER_MS

log = logging.getLogger("famulus.worker")


class Ending:
    """What others ask for: set by them, from any thread, before they ring the bell."""

    def __init__(self) -> None:
        self.soon = False
        self.now = False


class Shift:
    def __init__(
        self, settings: WorkerSettings, services: Services, bell: Bell, ending: Ending, runners: list[Runner]
    ) -> None:
        """`runners`: the one for plain functions and, if there are any async functions, the one for those."""
        self._settings = settings
        self._services = dict(services)
        self._bell = bell
        self._ending = ending
        self._runners = runners
        #: Quick functions need no thread of their own; but whoever asked for processes wants them to run there.
        self._threads = runners[0] if isinstance(runners[0], Threads) else None
        self._handoff = Handoff(self._lead)
        #: Quick calls that the I/O thread is about to run itself.
        self._here: deque[Call] = deque()
        self._finished = Event()
        self._error: BaseException | None = None
        #: Tasks that were started, or wait for a batch, and are not yet answered by their function.
        self.running = 0
        has_batches = any(service.batching is not None for service in services.values())
        self._batches = Batches(services, settings.capacity, settings.processes) if has_batches else None
        #: Answers that need no function.
        self._refusals: list[Answer] = []
        self._drained_by_ns = NEVER_NS
        self._waiting = Waiting()
        self._waiting.watch(bell.fd, bell)
        #: Which of our places had no broker in time, and why.
        self._problems: list[str] = []
        try:
            self._places = places_of(settings, list(services), self._waiting, clock_ns())
        except BaseException:
            self._waiting.close()
            raise
        sessions = [place.session for place in self._places]
        self._streams = Streams(bell, sessions)
        self._progress = ProgressReports(bell, sessions)
        for service in self._services.values():
            service.tell_progress = self._progress.tell

    def run(self) -> bool:
        """Serve until drained or told to stop. True if no task was given up."""
        self._handoff.start()
        self._finished.wait()
        if self._error is not None:
            raise self._error
        return not self.running

    @property
    def is_known(self) -> bool:
        """Whether every broker of ours has taken us, so that tasks may come. May be asked by any thread."""
        return not self.strangers

    @property
    def strangers(self) -> list[str]:
        """The addresses of brokers of ours that have not taken us yet. May be asked by any thread."""
        return [place.line.address for place in self._places if not place.session.begun]

    def close(self) -> bool:
        """False if a function did not return, and may still do so later."""
        ended = self._handoff.close()
        self._streams.close_all()
        for place in self._places:
            place.close()
        self._waiting.close()
        return ended

    def abandon(self) -> None:
        """In a forked child: this shift belongs to the parent."""
        for place in self._places:
            place.abandon()
        self._waiting.close()
        self._bell.close()

    def _lead(self, turn: int) -> None:
        """What the I/O thread does, from the start or from where another thread got stuck."""
        try:
            if turn > 1:
                self._take_over()
            while not self._over():
                for news in self._waiting.wait(self._next_due_ns()):
                    if news is self._bell:
                        self._bell.answer()
                    elif isinstance(news, Place):
                        news.has_news = True
                if not self._pass(clock_ns(), turn):
                    return
        except BaseException as error:
            self._error = error
        self._finished.set()

    def _take_over(self) -> None:
        """The thread before us is in a function that was not quick; the calls that it left go to the threads."""
        assert self._threads is not None
        left = list(self._here)
        self._here.clear()
        self.running += 1 + len(left)
        self._threads.adopt()
        self._threads.start(left)

    # -- one pass -----------------------------------------------------------------------------------------------

    def _pass(self, now_ns: int, turn: int) -> bool:
        """False if another thread does the I/O now, and nothing here is ours any more."""
        for place in self._places:
            if not self._take_in(place, now_ns, turn):
                return False
        self._answer(now_ns)
        if self._ending.soon:
            self._drain(now_ns)
        for place in self._places:
            place.tend(now_ns)
            if place.session.lost_streams:
                self._streams.follow(place.session)
            self._tell(place, now_ns)
            place.relink(now_ns)
            place.send()
        return True

    def _take_in(self, place: Place, now_ns: int, turn: int) -> bool:
        """Read messages from this broker. False as for `_pass`."""
        batch = place.recv()
        if batch:
            given = place.session.on_messages(now_ns, batch)
            if given:
                self._start(given, now_ns)
            if place.session.cancelled:
                self._cancel(place)
            if place.session.credited:
                self._streams.follow(place.session)
            if self._here and not self._run_here(turn):
                return False
            self._send()
        place.follow_line(now_ns)
        return True

    def _tell(self, place: Place, now_ns: int) -> None:
        """Tell the news of this place. The whole worker fails if no place had a broker in time, unless it may wait."""
        problem = place.news.tell(now_ns, place.line, self._ending.soon)
        if not problem:
            return
        self._problems.append(problem)
        if self._settings.wait or len(self._problems) < len(self._places):
            log.warning("%s; %s", problem, place.news.waits_for)
        else:
            raise BrokerUnreachable(f"{'; '.join(self._problems)}; {REMEDY}")

    def _start(self, given: list[Given], now_ns: int) -> None:
        find = self._services.get
        sync_calls: list[Call] = []
        async_calls: list[Call] = []
        for each in given:
            parsed = each.parsed
            service = find(parsed.service)
            if service is None:
                reason = reasons.reason(reasons.NO_SERVICE, f"this worker does not do {parsed.service!r}"[:200])
                self._refusals.append(Answer(each, reason, b""))
                continue
            left_ms = parsed.timeout_ms
            call = Call(each, service, NEVER_NS if left_ms is None else now_ns + left_ms * NS_PER_MS)
            if self._threads is not None and service.is_quick:
                self._here.append(call)
            elif service.batching is not None:
                assert self._batches is not None
                self._batches.add(call, now_ns)
                self.running += 1
            elif service.streams:
                self._start_stream(call)
            elif service.asynchronous:
                async_calls.append(call)
            else:
                sync_calls.append(call)
        if sync_calls:
            self._hand_over(self._runners[0], sync_calls)
        if async_calls:
            self._hand_over(self._runners[1], async_calls)

    def _start_stream(self, call: Call) -> None:
        if not call.given.parsed.credit:
            self._refusals.append(Answer(call.given, NO_CREDIT, b""))
        elif (begun := self._streams.begin(call)) is not None:
            self._hand_over(self._runners[1 if call.service.asynchronous else 0], [begun])

    def _cancel(self, place: Place) -> None:
        cancelled, place.session.cancelled = place.session.cancelled, []
        for given in cancelled:
            service = self._services.get(given.parsed.service)
            if service is None or given.is_cancelled:
                continue
            if self._is_taken_back(given, service):
                given.is_cancelled = True
                self._refusals.append(Answer(given, NOT_BEGUN, b""))
            elif service.streams and not service.asynchronous:
                self._streams.close(given)
            log.info("%s: task %s was cancelled", service.name, given.message_id)

    def _is_taken_back(self, given: Given, service: Service) -> bool:
        """Whether it had not begun, and nobody has it any more. Otherwise whoever runs it is told."""
        here = [call for call in self._here if call.given is given]
        if here:
            self._here.remove(here[0])
            return True
        if self._batches is not None and service.batching is not None:
            is_waiting = self._batches.remove(given)
            # Its batch may still wait for a thread: then the function does not get it.
            given.is_cancelled = True
        else:
            is_waiting = self._runners[1 if service.asynchronous else 0].cancel(given)
        self.running -= is_waiting
        return is_waiting

    def _hand_over(self, runner: Runner, calls: list[Call]) -> None:
        self.running += len(calls)
        runner.start(calls)

    def _run_here(self, turn: int) -> bool:
        """Call quick functions. False if one was not quick, and another thread does the I/O now."""
        handoff, here, mine = self._handoff, self._here, my_current()
        sent_ns = began_ns = clock_ns()
        while here:
            call = here.popleft()
            handoff.enter(began_ns)
            call.given.has_begun = True
            mine.call = call
            answer = perform(call)
            mine.call = None
            ended_ns = clock_ns()
            call.service.note(ended_ns - began_ns)
            if not handoff.leave(turn):
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
        if self._streams.running:
            self._streams.send(now_ns)
        if self._progress.minds:
            self._progress.send(now_ns)
        if self.running:
            self._take_answers(now_ns)
        if self._batches is not None:
            self._start_batches(self._batches, now_ns)
        if self._refusals:
            for answer in self._refusals:
                self._hand_in(answer)
            self._refusals.clear()

    def _take_answers(self, now_ns: int) -> None:
        for runner in self._runners:
            answers = runner.take(now_ns)
            self.running -= len(answers)
            for answer in answers:
                if isinstance(answer, BatchAnswer):
                    self._take_batch(answer)
                else:
                    self._hand_in(answer)
            if runner.failure:
                raise FamulusError(runner.failure)

    def _take_batch(self, ended: BatchAnswer) -> None:
        assert self._batches is not None
        self._batches.ended(ended)
        self.running -= len(ended.answers) - 1  # one has been counted
        for answer in ended.answers:
            self._hand_in(answer)

    def _start_batches(self, batches: Batches, now_ns: int) -> None:
        started, expired = batches.start(now_ns)
        for batch in started:
            # They are counted since they came.
            self._runners[1 if batch.service.asynchronous else 0].start([batch])
        self.running -= len(expired)
        self._refusals += expired

    def _hand_in(self, answer: Answer) -> None:
        given = answer.given
        if self._streams.running:
            self._streams.end(given)
        session = self._places[given.place].session
        outcome, reason = ended_as(answer) if answer.reason else ("OK", "")
        if not session.answer(given, outcome, reason, answer.body):
            log.debug("the answer to task %s comes after its broker was lost", given.message_id)

    def _send(self) -> None:
        for place in self._places:
            place.send()

    # -- beginning and end --------------------------------------------------------------------------------------

    def _next_due_ns(self) -> int:
        due_ns = min(min(self._drained_by_ns, self._streams.next_due_ns), self._progress.next_due_ns)
        for place in self._places:
            due_ns = min(due_ns, place.next_due_ns)
        for runner in self._runners:
            due_ns = min(due_ns, runner.next_due_ns)
        return due_ns if self._batches is None else min(due_ns, self._batches.next_due_ns)

    def _over(self) -> bool:
        if self._ending.now or self._drained_by_ns <= clock_ns():
            if self.running:
                gone = "1 task is" if self.running == 1 else f"{self.running} tasks are"
                log.warning("worker %s stops; %s given up", self._settings.identity, gone)
            return True
        return not self.running and all(place.session.state is SessionState.GONE for place in self._places)

    def _drain(self, now_ns: int) -> None:
        if self._drained_by_ns == NEVER_NS:
            self._drained_by_ns = now_ns + int(self._settings.drain_s * NS_PER_S)
            count = f"{self.running} task{'' if self.running == 1 else 's'}"
            log.info("worker %s drains: %s running", self._settings.identity, count)
            if self._batches is not None:
                self._batches.hurry()
            for place in self._places:
                place.session.drain(now_ns)
