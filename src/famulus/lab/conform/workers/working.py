"""What a worker does with tasks."""

from __future__ import annotations

import json

from famulus.lab.conform.rule import Rules
from famulus.lab.conform.stage import expect
from famulus.lab.conform.workers.stage import SERVICE, WorkerStage

RULES: Rules[WorkerStage] = Rules()
rule = RULES.add

TASK = "task-request-broker-to-worker"
RESPONSE = "task-response-worker-to-broker"
LIFE = "a-workers-life"


@rule(RESPONSE)
def answers(stage: WorkerStage) -> None:
    """The answer has the ticket as its envelope, and the function's bytes as its body; a function that fails is ERROR
    with a reason."""
    session = stage.ready()
    body = bytes(range(256)) * 4
    ticket = stage.give(session, body)
    stage.returns(stage.called(body), body[::-1])
    stage.ends(ticket, "OK", body[::-1])
    ticket = stage.give(session, b"to fail")
    stage.fails(stage.called(b"to fail"), "seven is odd")
    reason = stage.ends(ticket, "ERROR").fields.get("reason", "")
    expect("seven is odd" in reason, f"the reason is {reason!r}, and the function said that seven is odd")


@rule(LIFE)
def ticket_once(stage: WorkerStage) -> None:
    """Each ticket is brought back once, with the answer and with nothing else."""
    session = stage.ready()
    ticket = stage.give(session)
    call = stage.called()
    stage.no_more_answers("something came with a ticket before the function had ended", 0.3)
    stage.returns(call, b"once")
    stage.ends(ticket, "OK", b"once")
    stage.no_more_answers("something came after the answer")
    others = [each for each in stage.broker.all if each.envelope == ticket and each.kind != "TASK RESPONSE"]
    expect(not others, f"{others[0].kind if others else ''} came with a ticket as its envelope")


@rule("limits")
def large_bodies(stage: WorkerStage) -> None:
    """Bodies may have megabytes, in both directions."""
    session = stage.ready()
    body = bytes(range(256)) * 8192
    ticket = stage.give(session, body)
    stage.returns(stage.called(body), body[::-1])
    stage.ends(ticket, "OK", body[::-1])


@rule(LIFE, needs="several")
def several_at_once(stage: WorkerStage) -> None:
    """With several slots, tasks run at the same time, and each answer has the ticket of its own task."""
    session = stage.ready()
    slots = session.fields.get("slots", 1)
    expect(slots == stage.slots, f"slots are {slots}, and {stage.slots} were wanted")
    tickets = {body: stage.give(session, body) for body in (b"one", b"two")}
    calls = {body: stage.called(body) for body in tickets}
    for body in reversed(tickets):
        stage.returns(calls[body], b"answer " + body)
    for body, ticket in tickets.items():
        stage.ends(ticket, "OK", b"answer " + body)


@rule(RESPONSE)
def ticket_alone(stage: WorkerStage) -> None:
    """The ticket alone identifies a task: the same message_id may come again under another one, and runs again."""
    session = stage.ready()
    for attempt in (1, 2):
        body = b"attempt %d" % attempt
        ticket = stage.give(session, body, message_id="the same", attempt=attempt)
        stage.returns(stage.called(body), body)
        stage.ends(ticket, "OK", body)


@rule("reasons")
def unknown_service(stage: WorkerStage) -> None:
    """A task of a service that it does not do is answered with ERROR, so that the slot is free again."""
    session = stage.ready()
    ticket = stage.give(session, service="nobody's")
    stage.ends(ticket, "ERROR")
    stage.serves(session)


@rule(LIFE)
def late_answer(stage: WorkerStage) -> None:
    """The answer to a task whose time is over is sent all the same: it frees the slot."""
    session = stage.ready()
    ticket = stage.give(session, timeout_ms=100)
    call = stage.called()
    stage.watch(0.4)
    stage.returns(call, b"late")
    stage.answer(ticket)
    stage.serves(session)


@rule("headers")
def unknown_keys(stage: WorkerStage) -> None:
    """The header of a task may have other keys, also nested ones, in any order and with white space."""
    session = stage.ready()
    fields = {
        "later_version": {"nested": [1, {"deep": None}]},
        "timeout_ms": 20_000,
        "attempt": 3,
        "headers": {"customer": "ünïcödé"},
        "message_id": 'a "quoted" \U0001f600 one',
        "service": SERVICE,
        "type": "REQUEST",
        "request": "TASK",
    }
    ticket = b"\x00\xff 7 \n\xfe\x01"
    header = f" \n{json.dumps(fields, indent=2)}\t".encode()
    stage.broker.send(session.peer, [ticket, header, b"hi"])
    stage.returns(stage.called(), b"read all the same")
    stage.ends(ticket, "OK", b"read all the same")
