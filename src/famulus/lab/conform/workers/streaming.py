"""A worker whose function gives parts."""

from __future__ import annotations

from famulus.lab.conform.broker import Heard
from famulus.lab.conform.rule import Rules
from famulus.lab.conform.stage import expect
from famulus.lab.conform.workers.stage import STREAM, WorkerStage
from famulus.wire import headers, stream

RULES: Rules[WorkerStage] = Rules()
rule = RULES.add


@rule("streams", needs="streams")
def parts(stage: WorkerStage) -> None:
    """Parts come under the ticket and their number, from 1 on, each once, and none that is not wanted; the answer says
    how many there were."""
    session = stage.ready()
    ticket = stage.give(session, b"a stream", STREAM, credit=2)
    call = stage.called(b"a stream")
    for number in (1, 2, 3, 4):
        stage.yields(call, b"part %d" % number)
    for number in (1, 2):
        expect(stage.part(ticket) == (number, b"part %d" % number), f"part {number} is another one")
    stage.no_more_answers("a part that nobody wants yet", 0.4)
    stage.broker.send(session.peer, [b"", headers.CREDIT, stream.write_credit(ticket, 4)])
    for number in (3, 4):
        expect(stage.part(ticket) == (number, b"part %d" % number), f"part {number} is another one")
    stage.returns(call)
    fields = stage.ends(ticket, "OK").fields
    expect(fields.get("parts") == 4, f"parts is {fields.get('parts')} instead of 4")
    stage.no_more_answers("something came after the answer", 0.2)


@rule("streams", needs="streams")
def no_parts_unasked(stage: WorkerStage) -> None:
    """A task without `credit` gets no parts: its ticket comes back with an answer of one piece, or an ERROR."""
    session = stage.ready()
    ticket = stage.give(session, b"a stream", STREAM)

    def end() -> Heard | None:
        for line in [line for line in stage.lines if line.get("body") == b"a stream".hex()]:
            stage.lines.remove(line)
            stage.yields(line, b"part 1")
            stage.returns(line)
        return stage.broker.take(lambda heard: heard.envelope == ticket and heard.kind == "TASK RESPONSE")

    stage.until(end, "the ticket")
    stage.no_more_answers("a part that nobody wants", 0.2)


@rule("credit-request-client-to-broker-and-broker-to-worker", needs="streams")
def credit_twice(stage: WorkerStage) -> None:
    """A CREDIT that comes twice, is smaller than one before, or is for no stream of its, does no harm."""
    session = stage.ready()
    ticket = stage.give(session, b"a stream", STREAM, credit=1)
    call = stage.called(b"a stream")
    for envelope, last in ((ticket, 2), (ticket, 2), (ticket, 1), (b"12345678", 9)):
        stage.broker.send(session.peer, [b"", headers.CREDIT, stream.write_credit(envelope, last)])
    for number in (1, 2, 3):
        stage.yields(call, b"part %d" % number)
    for number in (1, 2):
        expect(stage.part(ticket) == (number, b"part %d" % number), f"part {number} is another one")
    stage.no_more_answers("a part that nobody wants yet", 0.4)
    stage.broker.send(session.peer, [b"", headers.CREDIT, stream.write_credit(ticket, 3)])
    expect(stage.part(ticket) == (3, b"part 3"), "part 3 is another one")
    stage.returns(call)
    stage.ends(ticket, "OK")


@rule("streams", needs="streams")
def cancelled_stream(stage: WorkerStage) -> None:
    """After CANCEL no more parts are due, but the ticket of the stream is brought back, once."""
    session = stage.ready()
    ticket = stage.give(session, b"a stream", STREAM, credit=1)
    call = stage.called(b"a stream")
    stage.yields(call, b"part 1")
    stage.part(ticket)
    stage.broker.tell(session.peer, b"", "CANCEL", "REQUEST", ticket)
    stage.watch(0.2)
    stage.yields(call, b"part 2")
    stage.returns(call)
    heard = stage.answer(ticket)
    expect(heard.fields.get("outcome", "OK") != "REJECTED", "the outcome is REJECTED, and it had begun")
    stage.serves(session)
