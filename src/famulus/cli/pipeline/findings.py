"""`famulus findings`: what the pipeline found that an admin should do, and doing it."""

from __future__ import annotations

import json
import shlex
from typing import Annotated

import typer

from famulus.admin import wishes
from famulus.cli.admin.edits import send, tell_unchanged
from famulus.cli.admin.session import AdminSession, Force, Wait, add_command, confirmed, to_json
from famulus.cli.admin.words import columns, printable, value_words
from famulus.cli.pipeline.options import JournalOption, JsonOption, TablesOption, tables_place
from famulus.errors import NotFindings, PlaceError
from famulus.exit_codes import ExitCode
from famulus.tables.finding import FILE, Finding, find

app = typer.Typer(invoke_without_command=True)

Which = Annotated[str, typer.Argument(metavar="N", help="Its number in the list, or its id.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.callback()
def overview(
    context: typer.Context, tables: TablesOption = None, journal: JournalOption = None, as_json: JsonOption = False
) -> None:
    """Show the findings, the most urgent one first.

    They are those of the last `famulus pipeline run`. Nothing is changed by looking.

    Example: famulus findings --tables tables
    """
    if context.invoked_subcommand is None:
        list_findings(tables, journal, as_json)
    elif tables is not None or journal is not None or as_json:
        raise typer.BadParameter(f"give options after the command: famulus findings {context.invoked_subcommand} ...")


@app.command("list")
def list_findings(tables: TablesOption = None, journal: JournalOption = None, as_json: JsonOption = False) -> None:
    """Show the findings, the most urgent one first.

    Example: famulus findings list
    """
    findings = read(tables, journal)
    if as_json:
        typer.echo(to_json(findings))
        return
    if not findings:
        typer.echo("nothing was found that an admin should do")
        return
    rows = [
        (f"{each.rank}", each.severity, each.subject, each.title, "edit" if each.has_edit else "") for each in findings
    ]
    for line in columns(rows, indent=""):
        typer.echo(line)
    typer.echo("famulus findings show N tells more; apply N makes the edit of those that have one", err=True)


@app.command()
def show(which: Which, tables: TablesOption = None, journal: JournalOption = None, as_json: JsonOption = False) -> None:
    """Show one finding with its evidence, and the edit of the config that would help.

    Example: famulus findings show 1
    """
    finding = find(read(tables, journal), which)
    if as_json:
        typer.echo(to_json(finding))
        return
    for name in ("title", "subject", "severity", "evidence", "advice"):
        typer.echo(printable(f"{name:9} {getattr(finding, name)}"))
    typer.echo(f"{'seen':9} {finding.last_seen:%Y-%m-%d %H:%M:%SZ}")
    if finding.has_edit:
        typer.echo(printable(f"{'edit':9} famulus config set {finding.key} {_as_typed(finding)}"))
        typer.echo(f"{'':9} or: famulus findings apply {finding.rank}")


def apply(
    session: AdminSession,
    which: Which,
    tables: TablesOption = None,
    journal: JournalOption = None,
    yes: Yes = False,
    force: Force = False,
    wait: Wait = None,
) -> None:
    """Make the edit of the config that a finding proposes, as the admin --user, after a question.

    Only the fields that the finding names are changed; everything else under the key stays.

    Example: famulus findings apply 1 --user ann
    """
    finding = find(read(tables, journal), which)
    key, fields = finding.edit()
    shown = session.administration.show(key)
    wanted = wishes.fields(shown, key, fields)
    if not wanted:
        tell_unchanged(session, f"{key} is that already")
        return
    present = shown.key(key).said
    session.note(f"{finding.title}: {finding.evidence}")
    session.note(f"{key} is {value_words(present)}, and would be {value_words(wanted[0].value)}")
    if not yes and not confirmed("Make this edit?"):
        session.note("nothing was sent")
        raise typer.Exit(ExitCode.FAILED)
    send(session, wanted, wait, force=force)


add_command(app, "apply", apply)


# -- findings -----------------------------------------------------------------------------------------------------


def read(tables: str | None, journal: str | None) -> list[Finding]:
    """All of them, without Spark: there are no more than a person can read."""
    from famulus.tables import reading

    place = tables_place(journal, tables)
    try:
        with place.open(FILE) as file:
            return reading.read(file).rows
    except FileNotFoundError:
        raise PlaceError(f"there are no findings at {place}: make them with famulus pipeline run") from None
    except (OSError, NotFindings) as error:
        raise PlaceError(f"the findings at {place} cannot be read: {error}") from None


def _as_typed(finding: Finding) -> str:
    """The fields as one would type them."""
    _, fields = finding.edit()
    return " ".join(
        shlex.quote(f"{name}={each if isinstance(each, str) else json.dumps(each)}") for name, each in fields.items()
    )
