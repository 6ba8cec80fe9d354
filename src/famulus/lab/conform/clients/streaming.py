"""A client that asks for a stream."""

from __future__ import annotations

from famulus.lab.conform.broker import Heard
from famulus.lab.conform.clients.stage import ClientStage
from famulus.lab.conform.rule import Broken, Rules
from famulus.lab.conform.stage import expect
from famulus.wire import limits, stream

RULES: Rules[ClientStage] = Rules()
rule = RULES.add

CREDIT = "credit-request-client-to-broker-and-broker-to-worker"
PART = "part-response-worker-to-broker-and-broker-to-client"


def _opened(stage: ClientStage, credit: int = 4) -> tuple[str, Heard]:
    asked = stage.ask(b"a stream", credit=credit)
    task = stage.task()
    wanted = task.fields.get("credit", 0)
    expect(0 < wanted <= limits.CREDIT_MAX, f"credit is {wanted}, and {credit} was asked for")
    size = len(task.envelope)
    expect(size <= limits.STREAM_ENVELOPE_BYTES_MAX, f"the envelope has {size} bytes, and its parts four more")
    return asked, task


@rule(CREDIT, needs="streams")
def credit(stage: ClientStage) -> None:
    """A client that has read parts says by CREDIT up to which one it wants them: a number that only grows, and the
    envelope of the task; the parts are taken in their order."""
    count = 20
    asked, task = _opened(stage)
    wanted = task.fields["credit"]
    for number in range(1, count + 1):
        while wanted < number:
            wanted = _more(stage, task, wanted, number - 1)
        stage.give(task, number, b"part %d" % number)
    stage.answer(task, parts=count)
    for number in range(1, count + 1):
        part = stage.part(asked)
        expect(part == b"part %d" % number, f"part {number} is told as {part[:60]!r}")
    stage.ends(asked, "OK")


def _more(stage: ClientStage, task: Heard, wanted: int, sent: int) -> int:
    told = stage.hear("CREDIT REQUEST")
    if len(told.body) < stream.NUMBER_BYTES:
        raise Broken(f"the body of CREDIT is {told.body!r}")
    envelope, last = stream.read_credit(told.body)
    expect(envelope == task.envelope, f"CREDIT names {envelope!r}, and the envelope of the task is {task.envelope!r}")
    expect(last > wanted, f"CREDIT says {last} after {wanted}")
    expect(last - sent <= limits.CREDIT_MAX, f"CREDIT says {last} after {sent} parts")
    return last


@rule("streams", needs="streams")
def stream_of_one_answer(stage: ClientStage) -> None:
    """If the answer to a stream has no `parts`, its body is all there is."""
    asked, task = _opened(stage)
    stage.answer(task, b"all there is")
    told = stage.outcome(asked)
    parts = [bytes.fromhex(line["part"]) for line in stage.lines if line.get("id") == asked and "part" in line]
    said = [*parts, bytes.fromhex(told.get("body", ""))]
    expect(told["outcome"] == "OK", f"the outcome is {told['outcome']}")
    expect(b"all there is" in said, f"what was told is {said}")


@rule("streams", needs="streams")
def parts_missing(stage: ClientStage) -> None:
    """If `parts` is not the number of parts that came, the outcome is UNKNOWN."""
    asked, task = _opened(stage)
    stage.give(task, 1, b"one")
    stage.answer(task, parts=2)
    stage.ends(asked, "UNKNOWN")


@rule(PART, needs="streams")
def part_out_of_order(stage: ClientStage) -> None:
    """A part that is not the next one is no part of the stream: the outcome is not OK."""
    for numbers in ((1, 3), (1, 1)):
        asked, task = _opened(stage)
        for number in numbers:
            stage.give(task, number, b"part %d" % number)
        stage.answer(task, parts=len(numbers))
        stage.ends(asked, "UNKNOWN")


@rule(PART, needs="streams")
def progress(stage: ClientStage) -> None:
    """Number 0 is no part but progress, and costs no credit."""
    asked, task = _opened(stage)
    stage.give(task, 0, b'{"done":0.5,"note":"halfway"}')
    stage.give(task, 1, b"one")
    stage.give(task, 0, b'{"done":0.9}')
    stage.answer(task, parts=1)
    part = stage.part(asked)
    expect(part == b"one", f"the first part is told as {part[:60]!r}")
    stage.ends(asked, "OK")


@rule("streams", needs="streams")
def stream_broken_off(stage: ClientStage) -> None:
    """After a part has come, the task is not sent again when the broker is lost, but is UNKNOWN."""
    asked, task = _opened(stage)
    stage.give(task, 1, b"one")
    stage.part(asked)
    stage.broker.leave()
    stage.broker.come_back()
    stage.ends(asked, "UNKNOWN")
    stage.serves()  # over the new connection: whatever leaves by itself has left
    stage.no_more_tasks("it was sent again", 0.3)


@rule("streams", needs="streams")
def parts_of_nothing(stage: ClientStage) -> None:
    """Parts that come after the outcome, or for no open task, are ignored."""
    asked, task = _opened(stage)
    stage.answer(task, parts=0)
    stage.ends(asked, "OK")
    stage.give(task, 1, b"late")
    stage.broker.tell(task.peer, b"", "PART", "RESPONSE", b"without a number")
    stage.serves()
    stage.has_not_ended(asked)
