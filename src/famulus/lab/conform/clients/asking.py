"""What a client sends, and what it makes of the answers."""

from __future__ import annotations

import time

from famulus.lab.conform.clients.stage import ClientStage
from famulus.lab.conform.rule import Rules
from famulus.lab.conform.stage import expect

RULES: Rules[ClientStage] = Rules()
rule = RULES.add

#: How long after its deadline a broker may still send the outcome of a task, and more than a broker needs to be late.
OVERTIME_S = 0.02
#: How much earlier the time of a task may seem to be over here: its client has begun to count before we heard of it.
EARLY_S = 0.1


@rule("frames")
def frames(stage: ClientStage) -> None:
    """Every message has three frames, or is a parcel; its envelope has at most 255 bytes."""
    stage.serves()


@rule("headers")
def headers(stage: ClientStage) -> None:
    """Every header is one JSON object as the document wants it, with fields of the types and within the bounds of the
    tables."""
    stage.serves()


@rule("messages")
def own_messages(stage: ClientStage) -> None:
    """A client says only what is for clients to say."""
    stage.serves()


@rule("task-request-client-to-broker")
def task_fields(stage: ClientStage) -> None:
    """A task has the service, time-out and body that were asked for, whatever characters and bytes they have."""
    body, service = bytes(range(256)) * 4, 'grün "quoted" \\ 東京 \U0001f600'
    asked = stage.ask(body, service, timeout_ms=12_345)
    task = stage.task()
    expect(task.fields["service"] == service, f"the service is {task.fields['service']!r} instead of {service!r}")
    expect(task.body == body, f"a body of {len(task.body)} bytes is not the one that was asked for")
    timeout_ms = task.fields.get("timeout_ms") or 0
    expect(0 < timeout_ms <= 12_345, f"timeout_ms is {timeout_ms}, and 12,345 were asked for")
    stage.answer(task, body[::-1])
    stage.ends(asked, "OK", body[::-1])


@rule("limits")
def large_bodies(stage: ClientStage) -> None:
    """Bodies may have megabytes, in both directions."""
    body = bytes(range(256)) * 8192
    asked = stage.ask(body)
    task = stage.task()
    expect(task.body == body, f"{len(task.body):,} bytes arrived of {len(body):,}, or others")
    stage.answer(task, body[::-1])
    stage.ends(asked, "OK", body[::-1])


@rule("task-response-broker-to-client")
def outcomes(stage: ClientStage) -> None:
    """OK, ERROR, REJECTED and UNKNOWN are told as they came, with the reason, and the body of OK and ERROR."""
    for outcome, reason, body in (
        ("OK", "", b"well"),
        ("ERROR", "ValueError: 7 is odd", b"not well"),
        ("REJECTED", "no_service: nobody offers it", b""),
        ("UNKNOWN", "worker_lost: its worker was lost", b""),
    ):
        asked = stage.ask(outcome.encode())
        stage.answer(stage.task(), body, outcome, **({"reason": reason} if reason else {}))
        told = stage.ends(asked, outcome, body if outcome in ("OK", "ERROR") else None)
        said = told.get("reason", "")
        expect(reason in said, f"the reason of {outcome} is {said!r} instead of {reason!r}")


@rule("error-response-broker-to-any-sender")
def error_messages(stage: ClientStage) -> None:
    """An ERROR message in answer to a task means that it was given to nobody: REJECTED, with its reason."""
    asked = stage.ask()
    task = stage.task()
    stage.broker.tell(task.peer, task.envelope, "ERROR", "RESPONSE", reason="bad_header: the kit does not like it")
    told = stage.ends(asked, "REJECTED")
    expect("bad_header" in told.get("reason", ""), f"the reason is {told.get('reason')!r}, without bad_header")


@rule("a-clients-life", needs="several")
def any_order(stage: ClientStage) -> None:
    """Several tasks may be open; their envelopes differ, and each answer belongs to the task with its envelope."""
    asked = {b"%d" % number: stage.ask(b"%d" % number) for number in range(5)}
    tasks = [stage.task() for _ in asked]
    envelopes = {task.envelope for task in tasks}
    expect(len(envelopes) == len(tasks), f"{len(tasks)} open tasks have {len(envelopes)} envelopes")
    for task in reversed(tasks):
        stage.answer(task, b"answer " + task.body)
    for body, each in asked.items():
        stage.ends(each, "OK", b"answer " + body)


@rule("a-clients-life")
def one_outcome(stage: ClientStage) -> None:
    """A task has one outcome: an answer that comes twice, or contradicts the first one, counts once."""
    asked = stage.ask()
    task = stage.task()
    stage.answer(task, b"first")
    stage.answer(task, b"first")
    stage.answer(task, b"second")
    stage.answer(task, outcome="REJECTED", reason="disabled: the kit changed its mind")
    stage.ends(asked, "OK", b"first")
    stage.serves()
    stage.has_not_ended(asked)


@rule("a-clients-life")
def foreign_answers(stage: ClientStage) -> None:
    """An answer under an envelope that no open task has is ignored."""
    asked = stage.ask()
    task = stage.task()
    for envelope in (b"", b"?", task.envelope + b"\x00", task.envelope[:-1], bytes(255)):
        ids = {"service": "echo", "message_id": "of somebody else", "outcome": "OK"}
        if envelope != task.envelope:
            stage.broker.tell(task.peer, envelope, "TASK", "RESPONSE", b"not yours", **ids)
    stage.answer(task, b"yours")
    stage.ends(asked, "OK", b"yours")
    stage.serves()


@rule("a-clients-life")
def no_answer(stage: ClientStage) -> None:
    """Without an answer a task is UNKNOWN once its time is over, and not before; it is not sent again."""
    asked = stage.ask(timeout_ms=500)
    task = stage.task()
    stage.ends(asked, "UNKNOWN")
    took_s = time.monotonic() - task.at
    expect(took_s >= 0.5 - EARLY_S, f"it was given up after {took_s:.3f} s of 0.5 s")
    stage.no_more_tasks("it was sent again", 0.3)


@rule("a-clients-life")
def just_in_time(stage: ClientStage) -> None:
    """The outcome may come 20 ms after the deadline: a client waits a little longer than that."""
    asked = stage.ask(timeout_ms=500)
    task = stage.task()
    stage.watch(task.at + 0.5 + OVERTIME_S - time.monotonic())
    stage.answer(task, b"just in time")
    stage.ends(asked, "OK", b"just in time")


@rule("a-clients-life")
def late_answers(stage: ClientStage) -> None:
    """An answer that comes after a task was given up is ignored, and is not taken for that of another task."""
    asked = stage.ask(b"early", timeout_ms=150)
    task = stage.task()
    stage.ends(asked, "UNKNOWN")
    other = stage.ask(b"later")
    later = stage.task()
    stage.answer(task, b"late")
    stage.watch(0.1)
    stage.answer(later, b"not late")
    stage.ends(other, "OK", b"not late")
    stage.has_not_ended(asked)


@rule("a-delay", needs="delay")
def delays(stage: ClientStage) -> None:
    """A delay is sent as delay_ms, what is left of it, and the time-out begins when it is over."""
    asked = stage.ask(timeout_ms=300, delay_ms=1500)
    task = stage.task()
    delay_ms = task.fields.get("delay_ms", 0)
    expect(0 < delay_ms <= 1500, f"delay_ms is {delay_ms}, and 1,500 were asked for")
    stage.watch(task.at + 1.7 - time.monotonic())
    stage.has_not_ended(asked)
    stage.answer(task, b"in time")
    stage.ends(asked, "OK", b"in time")


@rule("a-clients-life")
def stops(stage: ClientStage) -> None:
    """A client that is told to stop ends, also while a task is open: it does not linger."""
    stage.ask()
    stage.task()
    stage.stop()
    stage.ended()


@rule("sockets-and-ports")
def reads_all(stage: ClientStage) -> None:
    """A client reads what it is sent, also while nothing of its own is open."""
    stage.serves()
    task = stage.broker.all[0]
    for number in range(2000):
        stage.broker.tell(task.peer, b"nobody's", "TASK", "RESPONSE", bytes(1000), outcome="OK", note=number)
    stage.serves(b"after all that")
