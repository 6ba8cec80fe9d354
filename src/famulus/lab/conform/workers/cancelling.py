"""A worker whose task nobody wants any more."""

from __future__ import annotations

from famulus.lab.conform.rule import Rules
from famulus.lab.conform.stage import expect
from famulus.lab.conform.workers.stage import WorkerStage

RULES: Rules[WorkerStage] = Rules()
rule = RULES.add

SECTION = "cancel-request-broker-to-worker"


@rule(SECTION)
def cancel_of_nothing(stage: WorkerStage) -> None:
    """A CANCEL for a ticket that it does not have, or has answered, changes nothing."""
    session = stage.ready()
    ticket = stage.give(session)
    stage.returns(stage.called(), b"done")
    stage.ends(ticket, "OK", b"done")
    for body in (ticket, b"", b"not a ticket"):
        stage.broker.tell(session.peer, b"", "CANCEL", "REQUEST", body)
    stage.no_more_answers("an answer to a CANCEL of nothing", 0.3)
    stage.serves(session)


@rule(SECTION)
def cancel_at_work(stage: WorkerStage) -> None:
    """The ticket of a cancelled task is brought back once all the same; REJECTED only if no part of it has run, and
    REJECTED and UNKNOWN with a reason that begins with `cancelled:`."""
    session = stage.ready()
    ticket = stage.give(session)
    call = stage.called()
    stage.broker.tell(session.peer, b"", "CANCEL", "REQUEST", ticket)
    stage.watch(0.2)
    stage.returns(call, b"in vain")
    heard = stage.answer(ticket)
    outcome, reason = heard.fields.get("outcome", "OK"), heard.fields.get("reason", "")
    expect(outcome != "REJECTED", "the outcome is REJECTED, and its function had been called")
    expect(outcome != "UNKNOWN" or reason.startswith("cancelled:"), f"the outcome is UNKNOWN, for {reason!r}")
    stage.no_more_answers("a second answer", 0.3)
    stage.serves(session)
