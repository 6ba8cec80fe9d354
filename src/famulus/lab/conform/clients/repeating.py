"""Which tasks a client sends again by itself, and as what."""

from __future__ import annotations

from famulus.lab.conform.broker import Heard
from famulus.lab.conform.clients.stage import ClientStage
from famulus.lab.conform.rule import Rules
from famulus.lab.conform.stage import expect
from famulus.wire import limits

RULES: Rules[ClientStage] = Rules()
rule = RULES.add


@rule("reasons")
def may_have_run(stage: ClientStage) -> None:
    """A task that is UNKNOWN, or ended as ERROR, is not sent again by itself unless its caller said that this does no
    harm."""
    for outcome, reason in (("UNKNOWN", "worker_lost: gone"), ("UNKNOWN", "expired: too late"), ("ERROR", "E: no")):
        asked = stage.ask()
        stage.answer(stage.task(), outcome=outcome, reason=reason)
        stage.ends(asked, outcome)
    stage.no_more_tasks("a task was sent again")


@rule("reasons")
def refused(stage: ClientStage) -> None:
    """A task that was REJECTED for the moment is told so, or sent again after a pause, with the time that is left."""
    asked = stage.ask(timeout_ms=5000)
    first = stage.task()
    stage.answer(first, outcome="REJECTED", reason="overload: no room at the moment")
    is_told = False

    def end() -> Heard | dict[str, object] | None:
        again = stage.broker.take(lambda heard: heard.kind == "TASK REQUEST")
        return again or next((line for line in stage.lines if line.get("id") == asked), None)

    seen = stage.until(end, "the outcome, or the task once more")
    if isinstance(seen, Heard):
        expect(seen.at - first.at >= 0.01, f"it came again {(seen.at - first.at) * 1000:.1f} ms after it had come")
        before, now = first.fields["timeout_ms"], seen.fields["timeout_ms"]
        expect(now <= before, f"timeout_ms was {before}, and is {now} now")
        expect(seen.body == first.body, f"its body is another one: {seen.body[:60]!r}")
        stage.answer(seen, b"now there is")
        stage.ends(asked, "OK", b"now there is")
    else:
        stage.ends(asked, "REJECTED")
        is_told = True
    stage.no_more_tasks("it was told as REJECTED and sent again" if is_told else "it was answered and sent again", 0.3)


@rule("reasons")
def will_fail_again(stage: ClientStage) -> None:
    """What would fail again is told, and not sent again."""
    for reason in ("no_service: nobody offers it", "not_allowed: no right to call it"):
        asked = stage.ask()
        stage.answer(stage.task(), outcome="REJECTED", reason=reason)
        stage.ends(asked, "REJECTED")
    stage.no_more_tasks("it was sent again", 0.4)


@rule("task-request-client-to-broker", needs="ids")
def own_ids(stage: ClientStage) -> None:
    """A task with an id of its caller's has it as message_id, and a client_token: the same for all tasks of this
    client, over any connection, and hard to guess."""
    tokens = []
    for name in ("order 7", 'order "8" ü'):
        asked = stage.ask(message_id=name)
        task = stage.task()
        fields = task.fields
        expect(fields.get("message_id") == name, f"message_id is {fields.get('message_id')!r} instead of {name!r}")
        tokens.append(fields.get("client_token", ""))
        stage.answer(task)
        stage.ends(asked, "OK")
        stage.loses_its_broker()
        stage.broker.come_back()
    expect(len(set(tokens)) == 1, f"two tasks of one client have two tokens: {tokens}")
    expect(16 <= len(tokens[0]) <= limits.TOKEN_CHARS_MAX, f"the client_token is {tokens[0]!r}")


@rule("task-request-client-to-broker", needs="idempotent")
def again_after_a_loss(stage: ClientStage) -> None:
    """A task that may run twice says `idempotent`, and is sent again when its broker is lost: with the same id and
    token, and with the time that is left."""
    asked = stage.ask(message_id="twice", idempotent=True)
    first = stage.task()
    expect(first.fields.get("idempotent") is True, "its header does not say idempotent")
    stage.broker.leave()
    stage.watch(0.2)
    stage.broker.come_back()
    again = stage.task()
    _is_same(first, again)
    stage.answer(again, b"the second time")
    stage.ends(asked, "OK", b"the second time")


@rule("reasons", needs="idempotent")
def again_if_unknown(stage: ClientStage) -> None:
    """A task that may run twice is sent again when it is UNKNOWN, with the same id; an ERROR is final."""
    asked = stage.ask(message_id="twice", idempotent=True)
    first = stage.task()
    stage.answer(first, outcome="UNKNOWN", reason="worker_lost: gone")
    again = stage.task()
    _is_same(first, again)
    stage.answer(again, outcome="ERROR", reason="E: no")
    stage.ends(asked, "ERROR")
    stage.no_more_tasks("it was sent again after an ERROR", 0.4)


def _is_same(first: Heard, again: Heard) -> None:
    for key in ("service", "message_id", "client_token"):
        before, now = first.fields.get(key), again.fields.get(key)
        expect(before == now, f"{key} was {before!r}, and is {now!r} the second time")
    before, now = first.fields["timeout_ms"], again.fields["timeout_ms"]
    expect(now <= before, f"timeout_ms was {before}, and is {now} the second time")
    expect(first.body == again.body, "the body is another one the second time")
