"""A client that does not want a task any more."""

from __future__ import annotations

from famulus.lab.conform.broker import Heard
from famulus.lab.conform.clients.stage import ClientStage
from famulus.lab.conform.rule import Rules
from famulus.lab.conform.stage import expect

RULES: Rules[ClientStage] = Rules()
rule = RULES.add

SECTION = "cancel-request-client-to-broker"


def _cancelled(stage: ClientStage, asked: str, task: Heard) -> None:
    stage.cancel(asked)
    cancel = stage.hear("CANCEL REQUEST")
    expect(cancel.peer == task.peer, "CANCEL came over another connection than the task")
    expect(cancel.body == task.envelope, f"the body of CANCEL is {cancel.body!r}, and the envelope {task.envelope!r}")


@rule(SECTION, needs="cancel")
def cancel(stage: ClientStage) -> None:
    """CANCEL has the envelope of the task as its body, and goes over the same connection."""
    asked = stage.ask()
    task = stage.task()
    _cancelled(stage, asked, task)
    stage.answer(task, outcome="REJECTED", reason="cancelled: before it began")
    stage.serves()


@rule(SECTION, needs="cancel")
def cancel_is_final(stage: ClientStage) -> None:
    """A cancelled task is not sent again, however it ends."""
    for outcome, reason in (("REJECTED", "overload: no room"), ("UNKNOWN", "cancelled: a worker had it")):
        asked = stage.ask()
        task = stage.task()
        _cancelled(stage, asked, task)
        stage.answer(task, outcome=outcome, reason=reason)
    stage.no_more_tasks("a cancelled task was sent again")


@rule(SECTION, needs="cancel")
def cancel_too_late(stage: ClientStage) -> None:
    """If the worker was faster, the answer of a cancelled task comes all the same, and does no harm."""
    asked = stage.ask()
    task = stage.task()
    _cancelled(stage, asked, task)
    stage.answer(task, b"done already")
    stage.serves()
    told = [line for line in stage.lines if line.get("id") == asked and "outcome" in line]
    expect(len(told) <= 1, f"it has {len(told)} outcomes")
    told = [line for line in told if line["outcome"] == "REJECTED"]
    expect(not told, "it is told as REJECTED, and it ran")
