"""A worker that is sent what no broker would send, or what it does not know yet."""

from __future__ import annotations

from famulus.lab.conform.broker import Heard
from famulus.lab.conform.nonsense import FRAMES, HEADERS
from famulus.lab.conform.rule import Rules
from famulus.lab.conform.stage import expect
from famulus.lab.conform.workers.stage import WorkerStage

RULES: Rules[WorkerStage] = Rules()
rule = RULES.add


@rule("frames")
def foreign_frames(stage: WorkerStage) -> None:
    """Messages that have not three frames are ignored."""
    session = stage.ready()
    for frames in FRAMES:
        stage.broker.send(session.peer, frames)
    _goes_on(stage, session)


@rule("headers")
def foreign_headers(stage: WorkerStage) -> None:
    """Messages that a worker cannot read or does not know are ignored: the session goes on."""
    session = stage.ready()
    for header in HEADERS:
        stage.broker.send(session.peer, [b"", header, b""])
        stage.broker.send(session.peer, [b"12345678", header, b"body"])
    _goes_on(stage, session)


@rule("reasons")
def unknown_reasons(stage: WorkerStage) -> None:
    """An ERROR with a reason that has nothing to do with the session leaves it as it is."""
    session = stage.ready()
    for reason in ("bad_header: the kit did not like something", "later_version: nobody knows this code", ""):
        stage.broker.tell(session.peer, b"", "ERROR", "RESPONSE", reason=reason)
    _goes_on(stage, session)


def _goes_on(stage: WorkerStage, session: Heard) -> None:
    stage.serves(session)
    again = stage.broker.take(lambda heard: heard.kind == "CONNECT REQUEST")
    expect(again is None, "it sent CONNECT again")
    others = [each for each in stage.broker.inbox if each.kind == "TASK RESPONSE"]
    expect(not others, f"it answered what was no task: {others[:1]}")
