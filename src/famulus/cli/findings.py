"""`famulus findings`: what the pipeline found that an admin should do, and doing it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from famulus.cli.admin_desk import Desk, Force, Wait, add_command, confirmed, to_json
from famulus.cli.pipeline_options import JournalOption, JsonOption, TablesOption, tables_place
from famulus.errors import FamulusError

if TYPE_CHECKING:
    from famulus.core.config.draft import Draft

app = typer.Typer(help="What the pipeline found that an admin should do.", invoke_without_command=True)

Which = Annotated[str, typer.Argument(metavar="N", help="Its number in the list, or its id.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


class NoFinding(FamulusError):
    """There is no such finding, or nothing to do about it."""

    exit_code = 2


@app.callback()
def overview(
    context: typer.Context, tables: TablesOption = None, journal: JournalOption = None, as_json: JsonOption = False
) -> None:
    """Show the findings, the most urgent one first.

    They are those of the last `famulus pipeline run`. Nothing is changed by looking.

    Example: famulus findings --tables tables
    """
    if context.invoked_subcommand is None:
        _show_list(tables, journal, as_json)
    elif tables is not None or journal is not None or as_json:
        raise typer.BadParameter(f"give options after the command: famulus findings {context.invoked_subcommand} ...")


@app.command("list")
def list_findings(tables: TablesOption = None, journal: JournalOption = None, as_json: JsonOption = False) -> None:
    """Show the findings, the most urgent one first.

    Example: famulus findings list
    """
    _show_list(tables, journal, as_json)


@app.command()
def show(which: Which, tables: TablesOption = None, journal: JournalOption = None, as_json: JsonOption = False) -> None:
    """Show one finding with its evidence, and the edit of the config that would help.

    Example: famulus findings show 1
    """
    from famulus.cli.admin_words import printable

    finding = find(read(tables, journal), which)
    if as_json:
        typer.echo(to_json(_facts(finding)))
        return
    for name in ("title", "subject", "severity", "evidence", "advice"):
        typer.echo(printable(f"{name:9} {finding[name]}"))
    typer.echo(f"{'seen':9} {finding['last_seen']:%Y-%m-%d %H:%M:%SZ}")
    if finding["key"] is not None and finding["value"] is not None:
        typer.echo(printable(f"{'edit':9} famulus config set {finding['key']} {_as_typed(finding)}"))
        typer.echo(f"{'':9} or: famulus findings apply {finding['rank']}")


def apply(
    desk: Desk,
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
    from famulus.cli.admin_edits import send, tell_unchanged
    from famulus.cli.admin_words import value_words

    finding = find(read(tables, journal), which)
    key, fields = edit_of(finding)
    draft, present = _draft(desk, key, fields)
    if draft.value == present:
        tell_unchanged(desk, f"{key} is that already")
        return
    desk.note(f"{finding['title']}: {finding['evidence']}")
    desk.note(f"{key} is {value_words(present)}, and would be {value_words(draft.value)}")
    if not yes and not confirmed("Make this edit?"):
        desk.note("nothing was sent")
        raise typer.Exit(1)
    send(desk, [draft], wait, force=force)


add_command(app, "apply", apply)


# -- findings -----------------------------------------------------------------------------------------------------


def read(tables: str | None, journal: str | None) -> list[dict[str, Any]]:
    """All of them, without Spark: there are as many as a person can read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from famulus.pipeline.place import PlaceError

    place = tables_place(journal, tables)
    try:
        with place.open("findings/part-00.parquet") as file:
            rows = pq.read_table(file).to_pylist()
    except FileNotFoundError:
        raise PlaceError(f"there are no findings at {place}: make them with famulus pipeline run") from None
    except (OSError, pa.ArrowException) as error:
        raise PlaceError(f"the findings at {place} cannot be read: {error}") from None
    return sorted(rows, key=lambda row: row["rank"])


def find(findings: list[dict[str, Any]], which: str) -> dict[str, Any]:
    """By number or id."""
    wanted = [each for each in findings if which in (str(each["rank"]), each["id"])]
    if not wanted:
        many = f"there are {len(findings)}" if findings else "there are none"
        raise NoFinding(f"there is no finding {which}; {many}: famulus findings")
    return wanted[0]


def edit_of(finding: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The key and the fields that would change."""
    import msgspec

    if finding["key"] is None or finding["value"] is None:
        raise NoFinding(f"finding {finding['rank']} proposes no edit that could be made for you: {finding['advice']}")
    return finding["key"], msgspec.json.decode(finding["value"], type=dict[str, Any])


def _draft(desk: Desk, key: str, fields: dict[str, Any]) -> tuple[Draft, Any]:
    """The edit, and what holds now."""
    from msgspec import UNSET

    from famulus.admin import drafts

    shown = desk.administration.show(key)
    present = drafts.value_of(shown.keys.get(key))
    if present is not UNSET and not isinstance(present, dict):
        raise NoFinding(f"{key} has a value without fields; set it by hand: famulus config set {key} ...")
    return drafts.put(shown, key, {**(present if present is not UNSET else {}), **fields}), present


# -- showing ------------------------------------------------------------------------------------------------------


def _show_list(tables: str | None, journal: str | None, as_json: bool) -> None:
    findings = read(tables, journal)
    if as_json:
        typer.echo(to_json([_facts(each) for each in findings]))
    elif not findings:
        typer.echo("nothing was found that an admin should do")
    else:
        _print_list(findings)


def _print_list(findings: list[dict[str, Any]]) -> None:
    from famulus.cli.admin_words import columns

    rows = [
        (f"{each['rank']}", each["severity"], each["subject"], each["title"], "edit" if each["value"] else "")
        for each in findings
    ]
    for line in columns(rows, indent=""):
        typer.echo(line)
    typer.echo("famulus findings show N tells more; apply N makes the edit of those that have one", err=True)


def _facts(finding: dict[str, Any]) -> dict[str, Any]:
    import msgspec

    value = finding["value"]
    return {**finding, "value": msgspec.json.decode(value) if value is not None else None}


def _as_typed(finding: dict[str, Any]) -> str:
    """The fields as one would type them."""
    import json
    import shlex

    _, fields = edit_of(finding)
    return " ".join(
        shlex.quote(f"{name}={each if isinstance(each, str) else json.dumps(each)}") for name, each in fields.items()
    )
