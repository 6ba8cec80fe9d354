"""How a worker comes to a broker: CONNECT, CONFIG, PING, PONG; and refusals."""

from __future__ import annotations

import time

from famulus.lab.conform.broker import Heard
from famulus.lab.conform.rule import Rules
from famulus.lab.conform.stage import expect
from famulus.lab.conform.workers.stage import IDENTITY, SERVICE, WorkerStage

RULES: Rules[WorkerStage] = Rules()
rule = RULES.add

CONNECT = "connect-request-worker-to-broker"
#: Within a second and a half that is more than any back-off makes.
CONNECTS_MAX = 15
ATTEMPTS_MAX = 30


@rule("frames")
def frames(stage: WorkerStage) -> None:
    """Every message has three frames, or is a parcel; its envelope has at most 255 bytes."""
    stage.serves(stage.ready())


@rule("headers")
def headers(stage: WorkerStage) -> None:
    """Every header is one JSON object as the document wants it, with fields of the types and within the bounds of the
    tables."""
    stage.serves(stage.ready())


@rule("messages")
def own_messages(stage: WorkerStage) -> None:
    """A worker says only what is for workers to say."""
    stage.serves(stage.ready())


@rule(CONNECT)
def connect(stage: WorkerStage) -> None:
    """The first message is CONNECT, with identity, services and slots, an empty envelope and an empty body."""
    heard = stage.connect()
    expect(stage.broker.all[0] is heard, f"the first message is {stage.broker.all[0].header[:100]!r}")
    fields = heard.fields
    expect(fields["identity"] == IDENTITY, f"identity is {fields['identity']!r} instead of {IDENTITY!r}")
    expect(SERVICE in fields["services"], f"services are {fields['services']}, without {SERVICE!r}")
    expect(fields.get("slots", 1) in (1, stage.slots), f"slots are {fields['slots']}, and {stage.slots} were wanted")
    expect(heard.envelope == b"" == heard.body, f"envelope {heard.envelope!r} and body {heard.body[:60]!r} not empty")


@rule("a-workers-life")
def greeting(stage: WorkerStage) -> None:
    """After CONFIG a worker sends PING, and not before: with the PONG its slots may get tasks."""
    heard = stage.connect()
    stage.watch(0.2)
    before = [each.kind for each in stage.broker.all if each.kind == "PING REQUEST"]
    expect(not before, "PING came before CONFIG")
    stage.admit(heard)
    stage.serves(heard)


@rule("a-workers-life")
def no_config(stage: WorkerStage) -> None:
    """A CONNECT that is not answered is sent again, over this connection or another one."""
    stage.connect()
    stage.serves(stage.ready())


@rule(CONNECT)
def refused(stage: WorkerStage) -> None:
    """A worker that is refused for the moment (`disabled`, `overload`) tries again later, with pauses."""
    began = time.monotonic()
    for reason in ("disabled: the broker is shutting down", "overload: no more workers"):
        heard = stage.connect()
        stage.broker.tell(heard.peer, heard.envelope, "ERROR", "RESPONSE", reason=reason)
    while time.monotonic() - began < 1.5:
        stage.look(0.05)
        while heard_again := stage.broker.take(lambda each: each.kind == "CONNECT REQUEST"):
            heard = heard_again
            stage.broker.tell(heard.peer, heard.envelope, "ERROR", "RESPONSE", reason="disabled: still")
    count = sum(each.kind == "CONNECT REQUEST" for each in stage.broker.all)
    expect(count <= CONNECTS_MAX, f"{count} CONNECTs in {time.monotonic() - began:.1f} s")
    stage.serves(stage.ready())


@rule("a-workers-life")
def backs_off(stage: WorkerStage) -> None:
    """While nobody lets it in, a worker tries again with pauses, and goes on trying."""
    stage.ready()
    stage.broker.leave()
    attempts = stage.broker.turn_away(1.0)
    expect(attempts <= ATTEMPTS_MAX, f"{attempts} connections within a second")
    stage.broker.come_back()
    stage.serves(stage.ready())


@rule("a-workers-life", needs="drain")
def drain(stage: WorkerStage) -> None:
    """A worker that is told to stop says DISCONNECT, answers what it has, and goes when the broker has let it go."""
    session = stage.ready()
    ticket = stage.give(session)
    call = stage.called()
    stage.stop()
    goodbye = stage.hear("DISCONNECT REQUEST")
    stage.watch(0.2)
    expect(not stage.program.has_ended, "it ended while it had a task")
    stage.returns(call, b"the last one")
    stage.ends(ticket, "OK", b"the last one")
    stage.broker.tell(session.peer, goodbye.envelope, "DISCONNECT", "RESPONSE")
    stage.ended()


@rule("a-workers-life", needs="drain")
def given_while_draining(stage: WorkerStage) -> None:
    """A task that crossed its DISCONNECT on the way is still the worker's: its ticket comes back."""
    session = stage.ready()
    stage.stop()
    goodbye = stage.hear("DISCONNECT REQUEST")
    ticket = stage.give(session, b"crossed")

    def end() -> Heard | None:
        call = next((line for line in stage.lines if line.get("body") == b"crossed".hex()), None)
        if call is not None:
            stage.lines.remove(call)
            stage.returns(call, b"done")
        return stage.broker.take(lambda heard: heard.kind == "TASK RESPONSE" and heard.envelope == ticket)

    stage.until(end, "the ticket")
    stage.broker.tell(session.peer, goodbye.envelope, "DISCONNECT", "RESPONSE")
    stage.ended()
