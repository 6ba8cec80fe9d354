"""`famulus conform`: tries a client or a worker, in whatever language, on the rules of the protocol."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from famulus.exit_codes import ExitCode

if TYPE_CHECKING:
    from famulus.lab.conform.rule import TriedRule


class Role(StrEnum):
    CLIENT = "client"
    WORKER = "worker"


def conform(
    role: Annotated[Role, typer.Argument(help="What the command is.")],
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="What starts it, with its arguments.")],
    rules: Annotated[
        list[str] | None,
        typer.Option("--rule", metavar="NAME", help="Try this rule alone; may be repeated."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="How many rules to try at a time.")] = 8,
    patience: Annotated[
        float, typer.Option(min=0.1, metavar="S", help="How long to wait for what should happen at once.")
    ] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")] = False,
) -> None:
    """Try a client or a worker, in whatever language, on every rule of docs/protocol.md that concerns it.

    For each rule the command is started anew, and finds a broker that does what the rule wants: it answers as brokers
    do, late, twice, wrongly or not at all, closes connections, and comes back. The command is told what to do, and
    tells what it sees, by lines of JSON on its standard input and output: docs/conformance.md says which ones.

    Exit code: 0 if no rule failed, else 1.

    Examples:

    famulus conform client -- node my_client.js

    famulus conform worker --rule heartbeats -- ./my_worker
    """
    from famulus.lab.conform.run import conform as tried

    verdicts = tried(role.value, command, rules or (), jobs, patience)
    seen = list(verdicts) if as_json else list(_told(verdicts))
    counts = Counter(verdict.result.value for verdict in seen)
    if as_json:
        typer.echo(json.dumps(_report(role, command, seen, counts)))
    else:
        numbers = [f"{counts[each]} {word}" for each, word in WORDS.items()]
        typer.echo(f"{len(seen)} rules: {', '.join(numbers)}")
    raise typer.Exit(ExitCode.FAILED if counts["fail"] else ExitCode.DONE)


WORDS = {"pass": "passed", "fail": "failed", "not offered": "not offered"}


def _told(verdicts: Iterable[TriedRule]) -> Iterable[TriedRule]:
    """Each is printed as soon as it is there."""
    for verdict in verdicts:
        result = verdict.result.value
        typer.echo(f"{result.upper() if result == 'fail' else result:<12} {verdict.name}: {verdict.text}")
        if result == "fail":
            typer.echo(f"{'':<12} {verdict.place}")
            typer.echo(f"{'':<12} seen: {verdict.seen}")
        yield verdict


def _report(role: Role, command: list[str], seen: list[TriedRule], counts: Counter[str]) -> dict[str, Any]:
    rules = [{**asdict(verdict), "result": verdict.result.value} for verdict in seen]
    numbers = {word.replace(" ", "_"): counts[each] for each, word in WORDS.items()}
    return {"role": role.value, "command": command, **numbers, "rules": rules}
