"""`famulus call`: send tasks from a terminal or a script."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from famulus.cli import suggestions
from famulus.cli.calling.shown_body import json_of
from famulus.cli.calling.shown_parts import ShownParts
from famulus.errors import OutcomeError
from famulus.exit_codes import ExitCode

#: When several tasks end differently, the highest one is used.
_EXIT_CODES = {
    "OK": ExitCode.DONE,
    "ERROR": ExitCode.FAILED,
    "REJECTED": ExitCode.REJECTED,
    "UNKNOWN": ExitCode.UNKNOWN,
}


def call(
    service: Annotated[str, typer.Argument(help="The service to ask.", autocompletion=suggestions.services)],
    body: Annotated[str | None, typer.Argument(help="The body; - reads it from standard input.")] = None,
    broker: Annotated[
        list[str] | None,
        typer.Option(
            envvar="FAMULUS_FRONTEND", help="The broker's frontend; may be repeated. [default: 127.0.0.1:7100]"
        ),
    ] = None,
    pass_file: Annotated[
        Path | None,
        typer.Option("--pass", metavar="FILE", help="A pass, for brokers that want a key. [default: FAMULUS_PASS]"),
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds until the task is given up.")] = 30.0,
    priority: Annotated[int, typer.Option(min=0, max=9, help="9 goes first.")] = 5,
    message_id: Annotated[str | None, typer.Option(help="Your own id for the task. [default: the broker's]")] = None,
    at_least_once: Annotated[
        bool, typer.Option("--at-least-once", help="Send it again if its broker is lost; it may run more than once.")
    ] = False,
    idempotent: Annotated[
        bool,
        typer.Option("--idempotent", help="Running it twice does no harm: try it again whatever was lost."),
    ] = False,
    hedge: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS|p95",
            help="With --idempotent: ask a second worker after so long, or when it takes longer than nearly all.",
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=TEXT", help="A header that the function gets with the task; may be repeated."),
    ] = None,
    key: Annotated[
        str, typer.Option(help='Tasks with the same key go to the same worker, if the policy of the service is "key".')
    ] = "",
    delay: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Nobody gets the task before so much time has passed; at most an hour."),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Send the task this many times.")] = 1,
    window: Annotated[int, typer.Option(min=1, help="With --count: how many may be open at once.")] = 100,
    stream: Annotated[bool, typer.Option("--stream", help="Print each part of the answer as it comes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per task; of a stream, per part.")] = False,
) -> None:
    """Send a task to SERVICE and print the answer's body.

    Exit codes: 0 OK; 1 ERROR, the worker said so; 2 wrong usage; 3 REJECTED, it did not run and may be tried again;
    4 UNKNOWN, it may have run. With --count the worst one.

    Examples:

      famulus call echo hello

      cat image.png | famulus call resize - > small.png

      famulus call echo hello --count 1000 --json

      famulus call --stream words "once upon a time"
    """
    content = sys.stdin.buffer.read() if body == "-" else (body or "").encode()
    if message_id is not None and count > 1:
        raise typer.BadParameter("a message_id names one task, so --count must be 1", param_hint="--message-id")
    if stream and (count > 1 or at_least_once or idempotent or hedge):
        raise typer.BadParameter("a stream is one task, which is not sent again", param_hint="--stream")
    asked: dict[str, Any] = {"priority": priority, "headers": _headers(header or []), "key": key, "delay_s": delay}
    repeated: dict[str, Any] = {"at_least_once": at_least_once, "idempotent": idempotent, **_hedge(hedge)}
    from famulus.client.threads import Client

    worst = "OK"
    try:
        with Client(broker, timeout=timeout, pass_file=pass_file) as client:
            started = time.monotonic()
            if stream:
                answers: Any = _parts(client, service, content, as_json, message_id=message_id, **asked)
            elif count == 1:
                answers = [_one(client, service, content, message_id=message_id, **repeated, **asked)]
            else:
                bodies = (content for _ in range(count))
                answers = client.map(service, bodies, window=window, errors="return", **repeated, **asked)
            for answer in answers:
                outcome = answer.outcome if isinstance(answer, OutcomeError) else "OK"
                worst = max(worst, outcome, key=_EXIT_CODES.__getitem__)
                _show(answer, outcome, time.monotonic() - started if count == 1 else None, as_json)
        if worst == "REJECTED" and not client.was_connected and not client.was_turned_away:
            typer.echo(f"is a broker running at {' or '.join(client.addresses)}?", err=True)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    raise typer.Exit(_EXIT_CODES[worst])


def _headers(given: list[str]) -> dict[str, str]:
    pairs = {each: each.partition("=") for each in given}
    for each, (name, sign, _) in pairs.items():
        if not name or not sign:
            raise typer.BadParameter(f"{each!r} is not NAME=TEXT", param_hint="--header")
    return {name: text for name, _, text in pairs.values()}


def _hedge(given: str | None) -> dict[str, object]:
    if given is None or given == "p95":
        return {"hedge": given}
    try:
        return {"hedge_after_s": float(given)}
    except ValueError:
        raise typer.BadParameter(f"{given!r} is neither a number of seconds nor p95", param_hint="--hedge") from None


def _one(client: Any, service: str, body: bytes, **asked: object) -> bytes | OutcomeError:
    try:
        answer: bytes = client.request(service, body, **asked)
    except OutcomeError as error:
        return error
    return answer


def _parts(client: Any, service: str, body: bytes, as_json: bool, **asked: object) -> list[OutcomeError]:
    """Shows the parts of a stream, and returns the error, if it ended with one."""
    shown = ShownParts(as_json)
    started = time.monotonic()
    try:
        with client.stream(service, body, on_progress=shown.on_progress, **asked) as parts:
            shown.show(parts)
    except OutcomeError as error:
        return [error]
    if as_json:
        facts = {"outcome": "OK", "parts": shown.count, "seconds": round(time.monotonic() - started, 6)}
        typer.echo(json.dumps(facts))
    return []


def _show(answer: bytes | OutcomeError, outcome: str, seconds: float | None, as_json: bool) -> None:
    body = answer if isinstance(answer, bytes) else answer.body
    if as_json:
        _show_json(answer, outcome, body, seconds)
    elif isinstance(answer, bytes):
        sys.stdout.buffer.write(body)
        if sys.stdout.isatty() and not body.endswith(b"\n"):
            sys.stdout.buffer.write(b"\n")
        sys.stdout.buffer.flush()
    else:
        message_id = f" (task {answer.message_id})" if answer.message_id else ""
        typer.echo(f"{outcome}: {answer.reason}{message_id}", err=True)


def _show_json(answer: bytes | OutcomeError, outcome: str, body: bytes, seconds: float | None) -> None:
    facts: dict[str, object] = {"outcome": outcome}
    if not isinstance(answer, bytes):
        facts |= {"reason": answer.reason, "message_id": answer.message_id}
    facts |= json_of(body)
    if seconds is not None:
        facts["seconds"] = round(seconds, 6)
    typer.echo(json.dumps(facts))
