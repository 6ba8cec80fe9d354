"""A broker that stands in for a real one, in unit tests: the same core, but no process, no socket and no thread.

Dispatcher, router and the sessions of workers and clients are the real ones, so outcomes, reasons and deadlines are
what they would be. The functions of the workers are called by the thread that asks, one after the other; one that gives
a stream goes on whenever its reader waits for a part.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from itertools import count
from time import monotonic_ns
from typing import Any, Final
from uuid import uuid4

from famulus.client import rules
from famulus.client.aio import AsyncClient
from famulus.client.async_stream import LoopMailbox
from famulus.client.parts import Mailbox
from famulus.client.rules import DEFAULT_TIMEOUT_S
from famulus.client.stream import ThreadMailbox
from famulus.client.task_kinds import TaskKinds
from famulus.client.threads import Client
from famulus.client.window import Window
from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.routing.book import Book, BrokerAddress
from famulus.core.routing.router import Router
from famulus.core.session.client import ClientSession, Done, Streamed
from famulus.core.session.header_cache import Given
from famulus.core.session.task_kind import TaskKind
from famulus.core.session.worker import SessionState, WorkerSession
from famulus.errors import Closed, SettingsError
from famulus.testing.stand_in_stream import AskedStream, RunningStream, StandInLoopMailbox, StandInMailbox
from famulus.wire import inner
from famulus.worker.batch_call import perform_any
from famulus.worker.batches import Batches
from famulus.worker.calls import Answer, BatchAnswer, Call, ended_as, same_answer
from famulus.worker.coroutines import answer_of_any
from famulus.worker.stream_call import NO_CREDIT
from famulus.worker.time_limit import GOES_ON, time_limit_reason
from famulus.worker.worker import Worker

Frames = list[bytes]

ADDRESS: Final = "in-process"
_ROUTER: Final = b"router"
#: Nobody is ever silent here: whoever is asked answers at once.
_HEARTBEAT_MS: Final = 60 * 60 * 1000


class StandIn:
    """A broker in this process, with these workers.

    with StandIn(worker) as broker, broker.client() as client:
        assert client.call("add", a=1, b=2) == 3
    """

    def __init__(self, *workers: Worker) -> None:
        #: Held by whoever changes anything here; not while a function runs.
        self._changed = threading.Condition(threading.Lock())
        self._dispatcher = Dispatcher(Bounds(), 1, [], secret=uuid4().hex)
        broker = BrokerAddress("stand-in", "tests", ADDRESS, ADDRESS)
        self._router = Router(Book(broker, heartbeat_ms=_HEARTBEAT_MS), lambda: str(uuid4()))
        self._workers: dict[bytes, _StandInWorker] = {}
        self._clients: dict[bytes, tuple[ClientSession, list[Done]]] = {}
        #: Those whose readers have left, which may happen in the middle of anything.
        self._left: deque[AskedStream] = deque()
        self._numbers = count(1)
        for worker in workers:
            self.add(worker)

    def add(self, worker: Worker) -> None:
        """One more worker, which is ready when this returns. It does not `run`."""
        with self._changed:
            peer = b"w%d" % next(self._numbers)
            self._workers[peer] = joined = _StandInWorker(worker)
            joined.session.on_link(monotonic_ns())
            self._settle()
            if joined.session.state is not SessionState.READY:
                raise SettingsError(f"the worker cannot serve: {joined.session.refusal}")

    def remove(self, worker: Worker) -> None:
        """As if it were gone all at once: its services have no worker then."""
        with self._changed:
            gone = [peer for peer, each in self._workers.items() if each.worker is worker]
            for peer in gone:
                del self._workers[peer]
            self._dispatcher.at(monotonic_ns())
            self._dispatcher.sessions.gone(gone)
            self._settle()

    def client(self, *, timeout: float = DEFAULT_TIMEOUT_S) -> Client:
        """Like any other client, but a task has ended when `submit` returns."""
        return _StandInClient(self, timeout)

    def async_client(self, *, timeout: float = DEFAULT_TIMEOUT_S) -> AsyncClient:
        """The same for asyncio. The loop waits while a function runs."""
        return _StandInAsyncClient(self, timeout)

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    # -- for its clients ----------------------------------------------------------------------------------------

    def ask(self, token: str, wishes: list[Any]) -> list[Done]:
        """Do all there is to do until these tasks have ended. Each wish is what `ClientSession.submit` takes."""
        with self._changed:
            peer, session, ended = self._begin(token, wishes)
            while len(session):
                # Nobody is free for it: another thread is at it, or a function asks for its own service.
                self._wait(session)
                ended += session.on_tick(monotonic_ns())
            self._clients.pop(peer, None)
        return ended

    def _begin(self, token: str, wishes: list[Any]) -> tuple[bytes, ClientSession, list[Done]]:
        # A session for each time, since a function may ask while somebody waits for its own answer.
        session = ClientSession(0, lambda: str(uuid4()), token)
        session.on_brokers(False, ADDRESS, ADDRESS)
        ended: list[Done] = []
        now_ns = monotonic_ns()
        peer = b"c%d" % next(self._numbers)
        self._clients[peer] = session, ended
        for wish in wishes:
            session.submit(now_ns, *wish)
        messages = session.next_to_send(now_ns, session.unsent)
        session.on_sent(len(messages))
        self._tell(peer, messages)
        return peer, session, ended

    def _tell(self, peer: bytes, messages: list[Frames]) -> None:
        """What a client has to say."""
        self._dispatcher.at(monotonic_ns())
        self._dispatcher.on_clients([[peer, *message] for message in messages])
        self._settle()

    def _wait(self, session: ClientSession) -> None:
        due_ns = min(self._dispatcher.next_due_ns, session.next_due_ns)
        self._changed.wait(max(0, due_ns - monotonic_ns()) / NS_PER_S)
        self._settle()

    # -- streams ------------------------------------------------------------------------------------------------

    def open_stream(self, token: str, wish: tuple[Any, ...]) -> AskedStream:
        """Ask for a stream; its function is called when somebody waits for a part."""
        mailbox, kind, body, own_id, place = wish
        # By its id we find its function.
        message_id = own_id or str(uuid4())
        with self._changed:
            asked = AskedStream(*self._begin(token, [(mailbox, kind, body, message_id, place)]), message_id, mailbox)
            self._deliver(asked)
        return asked

    def go_on(self, asked: AskedStream) -> None:
        """Until there is something new for its reader: a part, or the end."""
        with self._changed:
            self._settle()
            while not self._deliver(asked):
                if not self._make_part(asked.message_id):
                    self._wait(asked.session)
                    asked.ended.extend(asked.session.on_tick(monotonic_ns()))

    def want(self, asked: AskedStream, task: Streamed) -> None:
        """Its reader has taken so many parts that the worker may make more."""
        with self._changed:
            self._tell(asked.peer, [task.want()])

    def leave(self, asked: AskedStream) -> None:
        """Nobody reads it any more."""
        self._left.append(asked)
        # A stream may be forgotten in the middle of anything, also by a thread that has the lock: that will look.
        if self._changed.acquire(blocking=False):
            try:
                self._settle()
            finally:
                self._changed.release()

    def _deliver(self, asked: AskedStream) -> bool:
        is_new = asked.deliver()
        if asked.mailbox.is_over:
            self._clients.pop(asked.peer, None)
        return is_new

    def _make_part(self, message_id: str) -> bool:
        """Let the function of this stream go on, unless another thread is at it or it may not."""
        for worker in self._workers.values():
            running = worker.streams.get(message_id)
            if running is not None and not running.is_busy and running.is_wanted:
                self._run(worker, running, running.next)
                self._settle()
                return True
        return False

    def _run(self, worker: _StandInWorker, running: RunningStream, step: Callable[[], bytes | Answer]) -> None:
        running.is_busy = True
        self._changed.release()
        try:
            made = step()
        finally:
            self._changed.acquire()
            running.is_busy = False
        worker.hand_in_part(running, made)
        self._changed.notify_all()

    def _cancel_left(self) -> None:
        while self._left:
            asked = self._left.popleft()
            asked.ended.extend(asked.session.cancel({asked.mailbox}))
            cancels = asked.session.take_cancels(asked.session.leg)
            self._dispatcher.at(monotonic_ns())
            self._dispatcher.on_clients([[asked.peer, *message] for message in cancels])

    # -- one thing after the other ------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Until there is nothing more to do at this moment."""
        core = self._dispatcher
        busy = True
        while busy:
            self._cancel_left()
            self._tick()
            core.on_router(_ROUTER, [[inner.NO_NUMBER, inner.HELLO]])
            core.flush(self)
            busy = False
            for peer, worker in list(self._workers.items()):
                self._call_functions(worker)
                for running in worker.cancelled_streams():
                    self._run(worker, running, running.stop)
                came = [[peer, *message] for message in worker.take_outbox()]
                busy = busy or bool(came)
                self._tick()  # first, since a function may have taken longer than it had
                core.on_workers(came)

    def _tick(self) -> None:
        now_ns = monotonic_ns()
        self._dispatcher.at(now_ns)
        if self._dispatcher.next_due_ns <= now_ns:
            self._dispatcher.on_tick()

    def _call_functions(self, worker: _StandInWorker) -> None:
        for call in worker.next_calls():
            # Whoever is called may ask for something else, from this thread or another.
            self._changed.release()
            try:
                answer = _answer(call)
            finally:
                self._changed.acquire()
            worker.hand_in(answer)
            self._changed.notify_all()

    # -- what leaves the dispatcher -----------------------------------------------------------------------------

    def to_router(self, router: bytes, questions: list[Frames]) -> bool:
        self._dispatcher.on_router(router, self._router.decide(questions))
        return True

    def to_workers(self, messages: list[Frames]) -> list[Frames]:
        refused: list[Frames] = []
        for message in messages:
            worker = self._workers.get(message[0])
            if worker is None:
                refused.append(message)
            else:
                worker.give(message[1:])
        return refused

    def to_clients(self, messages: list[Frames]) -> list[Frames]:
        for peer, *message in messages:
            if peer in self._clients:
                session, ended = self._clients[peer]
                ended += session.on_messages([message])
                if not len(session):
                    del self._clients[peer]
        return []

    def to_delegate(self, identity: bytes, task: Frames) -> bool:
        return False

    def to_steward(self, messages: list[Frames]) -> bool:
        return False


class _StandInWorker:
    """The session of a worker, and its functions, which are called by whoever asks."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self._functions = worker.functions
        settings = worker.settings_to_run
        #: A batch is what is there when its function could be called: nobody is waited for.
        self._batches = Batches(self._functions, settings.capacity, settings.processes)
        self._batches.hurry()
        self.session = WorkerSession(
            settings.identity, list(self._functions), settings.capacity, _HEARTBEAT_MS, lambda: 0.5, token=uuid4().hex
        )
        self._inbox: deque[Frames] = deque()
        #: By the ids of their tasks.
        self.streams: dict[str, RunningStream] = {}
        #: What functions said of their progress, in whatever thread.
        self._progress: deque[tuple[Given, bytes]] = deque()
        for service in self._functions.values():
            service.tell_progress = self._tell_progress

    def give(self, message: Frames) -> None:
        self._inbox.append(message)

    def _tell_progress(self, given: Given, body: bytes) -> None:
        self._progress.append((given, body))

    def take_outbox(self) -> list[Frames]:
        while self._progress:
            self.session.send_progress(*self._progress.popleft())
        outbox = self.session.outbox
        taken = outbox[:]
        outbox.clear()
        return taken

    def next_calls(self) -> list[Call]:
        """What to do next, if there is anything: batches last, when all that there is has come."""
        calls: list[Call] = []
        while self._inbox and not calls:
            now_ns = monotonic_ns()
            for given in self.session.on_messages(now_ns, [self._inbox.popleft()]):
                left_ms = given.parsed.timeout_ms
                deadline_ns = NEVER_NS if left_ms is None else now_ns + left_ms * NS_PER_MS
                call = Call(given, self._functions[given.parsed.service], deadline_ns)
                if call.service.streams:
                    self._begin_stream(call)
                elif call.service.batching is None:
                    calls.append(call)
                else:
                    self._batches.add(call, now_ns)
        if not calls:
            batches, expired = self._batches.start(monotonic_ns())
            calls += batches
            for answer in expired:
                self.hand_in(answer)
        return calls

    def _begin_stream(self, call: Call) -> None:
        given = call.given
        if not given.parsed.credit:
            self.hand_in(Answer(given, NO_CREDIT, b""))
        elif (opened := self.session.begin_stream(given)) is not None:
            self.streams[given.message_id] = RunningStream(call, opened)

    def cancelled_streams(self) -> list[RunningStream]:
        """Those whose readers have left; they are to be stopped."""
        cancelled, self.session.cancelled = self.session.cancelled, []
        self.session.credited.clear()
        for given in cancelled:
            given.is_cancelled = True
        return [each for each in self.streams.values() if each.call.given.is_cancelled and not each.is_busy]

    def hand_in_part(self, running: RunningStream, made: bytes | Answer) -> None:
        given = running.call.given
        if isinstance(made, bytes):
            self.session.send_parts(given, [made])
            return
        self.streams.pop(given.message_id, None)
        self.session.answer(given, *ended_as(made), made.body)

    def hand_in(self, answer: Answer) -> None:
        if isinstance(answer, BatchAnswer):
            self._batches.ended(answer)
        for each in answer.answers if isinstance(answer, BatchAnswer) else [answer]:
            self.session.answer(each.given, *ended_as(each), each.body)


def _answer(call: Call) -> Answer:
    if not call.service.asynchronous:
        began_ns = monotonic_ns()
        answer = perform_any(call)
        if call.service.is_limited and monotonic_ns() - began_ns > call.service.time_limit_ns:
            # With a real worker it would have been told earlier.
            return same_answer(call, time_limit_reason(call.service.time_limit_ns, GOES_ON))
        return answer
    answers: list[Answer] = []

    async def run() -> None:
        answers.append(await answer_of_any(call))

    # In a thread, since this one may have a loop that runs.
    thread = threading.Thread(target=asyncio.run, args=(run(),), name="famulus-stand-in")
    thread.start()
    thread.join()
    return answers[0]


class _StandInClient(Client):
    def __init__(self, broker: StandIn, timeout: float) -> None:
        # Nothing changes while it would wait, so what is refused is refused.
        self._kinds = TaskKinds(rules.timeout_ms(timeout), None)
        self._waiters = set()
        self._broker = broker
        self._token = uuid4().hex
        self._closed = False

    @property
    def address(self) -> str:
        return ADDRESS

    @property
    def addresses(self) -> list[str]:
        return [ADDRESS]

    @property
    def was_connected(self) -> bool:
        return True

    @property
    def was_turned_away(self) -> bool:
        return False

    def _new_mailbox(self) -> ThreadMailbox:
        return StandInMailbox()

    def _want(self, stream: Streamed) -> None:
        mailbox = stream.token
        assert isinstance(mailbox, StandInMailbox)
        self._broker.want(mailbox.asked, stream)

    def _leave(self, mailbox: Mailbox) -> None:
        self._waiters.discard(mailbox)
        if not mailbox.is_over:
            assert isinstance(mailbox, StandInMailbox)
            self._broker.leave(mailbox.asked)

    def _leave_wishes(self, wishes: list[Any], at_least_once: bool) -> None:
        if self._closed:
            raise Closed("this client is closed")
        mailbox = wishes[0][0]
        if isinstance(mailbox, StandInMailbox):
            mailbox.begin(self._broker, self._broker.open_stream(self._token, wishes[0]))
            return
        for done in self._broker.ask(self._token, wishes):
            done.token(done)  # type: ignore[operator]

    def _cancel(self, waiter: object, may_wait: bool = True) -> None:
        """Whatever was asked has ended."""

    def close(self) -> None:
        self._closed = True


class _StandInAsyncClient(AsyncClient):
    def __init__(self, broker: StandIn, timeout: float) -> None:
        self._asking: Any = _StandInAsking(broker, timeout)

    @property
    def address(self) -> str:
        return ADDRESS

    @property
    def addresses(self) -> list[str]:
        return [ADDRESS]

    @property
    def was_connected(self) -> bool:
        return True


class _StandInAsking:
    """What an AsyncClient needs of `Asking`: here a task has ended when it was submitted."""

    def __init__(self, broker: StandIn, timeout: float) -> None:
        self.kinds = TaskKinds(rules.timeout_ms(timeout), None)
        self._broker = broker
        self._token = uuid4().hex
        self._wishes: list[Any] = []
        self._closed = False

    def start(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            raise Closed("this client is closed")
        return asyncio.get_running_loop()

    def submit(
        self, kind: TaskKind, body: Any, message_id: str | None = None, promise: asyncio.Future[bytes] | None = None
    ) -> asyncio.Future[bytes]:
        loop = self.start()
        future: asyncio.Future[bytes] = loop.create_future() if promise is None else promise
        self._wishes.append((future, kind, rules.checked_body(body), message_id or "", 0))
        self.plan_send()
        return future

    def submit_for(self, window: Window, place: int, now_ns: int, kind: TaskKind, body: Any, message_id: str) -> None:
        self._wishes.append((window, kind, rules.checked_body(body), message_id, place))

    def new_mailbox(self) -> LoopMailbox:
        return StandInLoopMailbox()

    def submit_stream(self, mailbox: StandInLoopMailbox, kind: TaskKind, body: Any, message_id: str | None) -> None:
        self.start()
        wish = (mailbox, kind, rules.checked_body(body), message_id or "", 0)
        mailbox.begin(self._broker, self._broker.open_stream(self._token, wish))

    def want(self, stream: Streamed) -> None:
        mailbox = stream.token
        assert isinstance(mailbox, StandInLoopMailbox)
        self._broker.want(mailbox.asked, stream)

    def leave(self, mailbox: StandInLoopMailbox) -> None:
        if not mailbox.is_over:
            self._broker.leave(mailbox.asked)

    def cancel(self, token: object) -> None:
        """Whatever was asked has ended."""

    def plan_send(self) -> None:
        wishes, self._wishes = self._wishes, []
        for done in self._broker.ask(self._token, wishes):
            token = done.token
            if isinstance(token, Window):
                token(done)
            elif isinstance(token, asyncio.Future) and done.outcome == "OK":
                token.set_result(done.body)
            elif isinstance(token, asyncio.Future):
                token.set_exception(rules.error_of(done))

    def close(self) -> None:
        self._closed = True
