"""A worker that loses its session: what becomes of its tickets, and how it comes back."""

from __future__ import annotations

from famulus.lab.conform.rule import Rules
from famulus.lab.conform.stage import expect
from famulus.lab.conform.workers.stage import WorkerStage
from famulus.wire import limits

RULES: Rules[WorkerStage] = Rules()
rule = RULES.add

LIFE = "a-workers-life"


@rule(LIFE)
def connection_lost(stage: WorkerStage) -> None:
    """When the connection is lost, a worker connects again, over a new one, and registers as at the start."""
    session = stage.ready()
    stage.serves(session)
    stage.broker.leave()
    stage.watch(0.3)
    stage.broker.come_back()
    again = stage.ready(after=session)
    expect(
        again.fields["identity"] == session.fields["identity"],
        f"it is called {again.fields['identity']!r} now, and was {session.fields['identity']!r}",
    )
    stage.serves(again)


@rule(LIFE)
def tickets_are_void(stage: WorkerStage) -> None:
    """When the broker is lost, its tickets are forgotten: what a function answers then is for nobody."""
    session = stage.ready()
    stage.give(session, b"long")
    call = stage.called(b"long")
    stage.broker.leave()
    stage.broker.come_back()
    again = stage.ready(after=session)
    stage.returns(call, b"too late")
    stage.no_more_answers("an answer with a ticket of the former session")
    stage.serves(again)


@rule(LIFE)
def not_connected(stage: WorkerStage) -> None:
    """`not_connected` says that the broker does not know the worker: it sends CONNECT again over the same connection,
    and its tickets are void."""
    session = stage.ready()
    stage.give(session, b"long")
    call = stage.called(b"long")
    stage.broker.tell(session.peer, b"", "ERROR", "RESPONSE", reason="not_connected: the broker was restarted")
    again = stage.connect()
    expect(again.peer == session.peer, "CONNECT came over another connection")
    stage.returns(call, b"too late")
    stage.admit(again)
    stage.no_more_answers("an answer with a ticket of the former session")
    stage.serves(again)


@rule("connect-request-worker-to-broker", needs="token")
def worker_token(stage: WorkerStage) -> None:
    """The worker_token is the same on every connection, so that a broker knows the worker again before it has noticed
    the loss; and hard to guess."""
    session = stage.ready()
    stage.broker.leave()
    stage.broker.come_back()
    again = stage.ready(after=session)
    before, now = session.fields.get("worker_token", ""), again.fields.get("worker_token", "")
    expect(16 <= len(before) <= limits.TOKEN_CHARS_MAX, f"the worker_token is {before!r}")
    expect(before == now, f"the worker_token was {before!r}, and is {now!r} now")


@rule("ping-request-worker-to-broker-and-pong-response-broker-to-worker")
def other_config(stage: WorkerStage) -> None:
    """A PONG with another digest changes nothing in the session: a worker may ask for its config, or not."""
    stage.broker.digest = "another"
    session = stage.ready(400)
    stage.watch(1.0)
    stage.serves(session)
    again = stage.broker.take(lambda heard: heard.kind == "CONNECT REQUEST")
    expect(again is None, "it sent CONNECT again")
