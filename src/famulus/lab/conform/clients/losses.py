"""A client whose broker goes away, comes back, or is not there."""

from __future__ import annotations

from famulus.lab.conform.clients.stage import ClientStage
from famulus.lab.conform.rule import Rules
from famulus.lab.conform.stage import expect

RULES: Rules[ClientStage] = Rules()
rule = RULES.add

#: Attempts to connect within a second that are more than any back-off makes.
ATTEMPTS_MAX = 30


@rule("a-clients-life")
def connection_lost(stage: ClientStage) -> None:
    """If the connection is lost before the answer came, the task is UNKNOWN, and not sent again."""
    asked = stage.ask(timeout_ms=3000)
    stage.task()
    stage.broker.leave()
    stage.broker.come_back()
    stage.ends(asked, "UNKNOWN")
    stage.serves()  # over the new connection: whatever leaves by itself has left
    stage.no_more_tasks("it was sent again", 0.3)


@rule("a-clients-life")
def broker_back(stage: ClientStage) -> None:
    """When its broker is back at the same address, a client is connected again by itself."""
    stage.loses_its_broker()
    stage.broker.come_back()
    stage.serves(b"afterwards")


@rule("a-clients-life")
def never_left(stage: ClientStage) -> None:
    """A task whose time was over before there was a connection did not run, and is not sent afterwards."""
    stage.serves(b"before")
    stage.broker.leave()
    stage.watch(0.2)
    asked = stage.ask(b"too late", timeout_ms=300)
    told = stage.outcome(asked)
    expect(told["outcome"] in ("REJECTED", "UNKNOWN"), f"the outcome is {told['outcome']}, and nobody was there")
    stage.broker.come_back()
    stage.serves(b"in time")
    stage.no_more_tasks("it was sent when its time was over", 0.3)


@rule("sockets-and-ports")
def backs_off(stage: ClientStage) -> None:
    """While nobody lets it in, a client tries again with pauses, and goes on trying."""
    stage.serves(b"before")
    stage.broker.leave()
    attempts = stage.broker.turn_away(1.0)
    asked = stage.ask(b"patience")
    expect(attempts <= ATTEMPTS_MAX, f"{attempts} connections within a second")
    stage.broker.come_back()
    stage.answer(stage.task(), b"at last")
    stage.ends(asked, "OK", b"at last")


@rule("disconnect-request-broker-to-client")
def broker_stops(stage: ClientStage) -> None:
    """What a broker has not answered before its DISCONNECT did not run: it is REJECTED or sent again, and not
    UNKNOWN."""
    asked = stage.ask()
    task = stage.task()
    stage.broker.tell(task.peer, b"", "DISCONNECT", "REQUEST")
    stage.broker.leave_in_order()
    stage.broker.come_back()

    def end() -> str | None:
        again = stage.broker.take(lambda heard: heard.kind == "TASK REQUEST" and heard.peer != task.peer)
        if again is not None:
            stage.answer(again, b"here")
        told = next((line for line in stage.lines if line.get("id") == asked and "outcome" in line), None)
        return str(told["outcome"]) if told else None

    outcome = stage.until(end, "an outcome, or the task once more")
    expect(outcome in ("OK", "REJECTED"), f"the outcome is {outcome}, and it provably did not run")


@rule("disconnect-request-broker-to-client")
def answered_before_it_stops(stage: ClientStage) -> None:
    """What a broker answered before its DISCONNECT counts, also if both arrive together."""
    asked = stage.ask()
    task = stage.task()
    stage.answer(task, b"the last one")
    stage.broker.tell(task.peer, b"", "DISCONNECT", "REQUEST")
    stage.broker.leave_in_order()
    stage.ends(asked, "OK", b"the last one")
