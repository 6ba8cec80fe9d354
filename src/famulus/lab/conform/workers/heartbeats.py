"""How a worker and its broker know that the other one is there."""

from __future__ import annotations

from itertools import pairwise

from famulus.lab.conform.broker import Heard
from famulus.lab.conform.rule import Rules
from famulus.lab.conform.stage import expect
from famulus.lab.conform.workers.stage import WorkerStage
from famulus.wire import limits

RULES: Rules[WorkerStage] = Rules()
rule = RULES.add

LIFE = "a-workers-life"
HEARTBEAT_MS = 400
HEARTBEAT_S = HEARTBEAT_MS / 1000
#: How many heartbeats may pass on a busy machine where one is allowed: with three, a broker takes the worker for lost.
LATE = 2.0


def _beats(stage: WorkerStage, session: Heard) -> None:
    """For some heartbeats, nothing but them is heard."""
    stage.watch(6 * HEARTBEAT_S)
    heard = [each.at for each in stage.broker.all if each.peer == session.peer]
    pauses = [later - earlier for earlier, later in pairwise(heard)]
    expect(len(heard) >= 4, f"{len(heard)} messages in more than six heartbeats of {HEARTBEAT_MS} ms")
    longest = max(pauses)
    expect(longest <= LATE * HEARTBEAT_S, f"nothing came for {longest:.2f} s, with heartbeats of {HEARTBEAT_S:g} s")


@rule(LIFE)
def heartbeats(stage: WorkerStage) -> None:
    """A worker sends something at least once per heartbeat that was granted."""
    _beats(stage, stage.ready(HEARTBEAT_MS))


@rule(LIFE)
def heartbeats_at_work(stage: WorkerStage) -> None:
    """No task, however long it takes, keeps a heartbeat waiting."""
    session = stage.ready(HEARTBEAT_MS)
    ticket = stage.give(session)
    call = stage.called()
    _beats(stage, session)
    stage.returns(call, b"done")
    stage.ends(ticket, "OK", b"done")


@rule("ping-request-worker-to-broker-and-pong-response-broker-to-worker")
def checked(stage: WorkerStage) -> None:
    """A PING of the broker is answered, by any message, and soon: somebody else claims its name."""
    session = stage.ready(20_000)
    count = len(stage.broker.all)
    stage.broker.tell(session.peer, b"", "PING", "REQUEST")
    stage.until(lambda: len(stage.broker.all) > count or None, "an answer to PING", 2.0)


@rule(LIFE)
def silence(stage: WorkerStage) -> None:
    """After three heartbeats without any message the broker is lost: the worker connects anew, over another
    connection, and not earlier."""
    stage.broker.is_mute = True
    session = stage.connect()
    stage.admit(session, HEARTBEAT_MS)
    began = session.at
    again = stage.connect(after=session)
    took_s = again.at - began
    lost_s = limits.HEARTBEATS_UNTIL_LOST * HEARTBEAT_S
    expect(took_s >= 0.9 * lost_s, f"it gave the broker up after {took_s:.2f} s, with heartbeats of {HEARTBEAT_S:g} s")
    expect(took_s <= lost_s + 5, f"it took {took_s:.1f} s to notice, with heartbeats of {HEARTBEAT_S:g} s")
    stage.broker.is_mute = False
    stage.admit(again)
    stage.serves(again)


@rule(LIFE)
def anything_is_a_sign(stage: WorkerStage) -> None:
    """Any message of the broker shows that it is there, also one that the worker does not know."""
    session = stage.ready(HEARTBEAT_MS)
    stage.serves(session)
    stage.broker.is_mute = True
    for _ in range(8):
        stage.broker.tell(session.peer, b"", "DANCE", "RESPONSE")
        stage.watch(HEARTBEAT_S)
    again = stage.broker.take(lambda heard: heard.kind == "CONNECT REQUEST")
    expect(again is None, "it took the broker for lost, which had sent something in each heartbeat")
    stage.broker.is_mute = False
    stage.serves(session)
