"""`famulus pipeline whatif`: what waits would be with another load, or other slots."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from famulus.cli.admin.words import columns
from famulus.cli.pipeline.options import JournalOption, JsonOption, TablesOption, made_tables
from famulus.errors import PlaceError, QueryError

if TYPE_CHECKING:
    from famulus.pipeline.report.reading import Tables
    from famulus.pipeline.whatif.change import AskedChange
    from famulus.pipeline.whatif.forecast import Forecast

#: Columns of figures.
_FIGURES: Final = range(2, 8)
#: A message names no more.
NAMES_MAX: Final = 12


def whatif(
    load: Annotated[
        list[str] | None,
        typer.Option(metavar="[SERVICE=]xN", help="So many times the load, of all services or one; may be repeated."),
    ] = None,
    slots: Annotated[
        list[str] | None,
        typer.Option(metavar="[SERVICE=]xN", help="So many times the slots, or SERVICE=N: that many; may be repeated."),
    ] = None,
    service: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this service; may be repeated. [default: all]")
    ] = None,
    wait_ms: Annotated[float, typer.Option(min=0.001, help="The target: 95 % of the tasks wait no longer.")] = 100,
    tables: TablesOption = None,
    journal: JournalOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell how long tasks would wait with more load or fewer slots, by Erlang C.

    For the most demanding hour of each service, as in the table capacity: what was measured, what the model says of
    the same hour, and what it says of the case that you ask about. It needs no Spark.

    Example: famulus pipeline whatif --load x2 --slots mail=12
    """
    from famulus.pipeline.report.reading import Tables
    from famulus.pipeline.whatif.change import change

    wanted = change(load or (), slots or ())
    found = _forecasts(Tables(made_tables(journal, tables).name), wanted, service, wait_ms / 1000)
    if as_json:
        typer.echo(json.dumps([_facts(each) for each in found], indent=2))
    else:
        _show(found, wait_ms / 1000)


def _forecasts(tables: Tables, wanted: AskedChange, services: Sequence[str] | None, wait_s: float) -> list[Forecast]:
    from famulus.pipeline.report.measured import measured
    from famulus.pipeline.whatif.forecast import busiest, forecast, hour_of

    hours = [hour_of(row) for row in busiest(tables.rows("capacity"))]
    if not hours:
        raise PlaceError("the table capacity has no rows: make it with famulus pipeline run, once workers had tasks")
    names = sorted({each.service for each in hours})
    for each in sorted({*wanted.services, *(services or ())}):
        if each not in names:
            rest = f" and {len(names) - NAMES_MAX:,} more" if len(names) > NAMES_MAX else ""
            raise QueryError(f"no tasks of a service {each!r}; there are {', '.join(names[:NAMES_MAX])}{rest}")
    chosen = [each for each in hours if services is None or each.service in services]
    seen = measured(tables, chosen)
    return [forecast(each, seen.get((each.service, each.family)), wanted, wait_s=wait_s) for each in chosen]


# -- what is said -------------------------------------------------------------------------------------------------


def _show(found: Sequence[Forecast], wait_s: float) -> None:
    from famulus.cli.pipeline import forecasts

    families = {each.hour.family for each in found}
    rows = [list(forecasts.rows(each, len(families) > 1)) for each in found]
    every = [forecasts.HEADS, *(row for own in rows for row in own)]
    heads, *lines = columns(every, indent="", numbers=_FIGURES)
    typer.echo(heads)
    for each, own in zip(found, rows, strict=True):
        for _ in own:
            typer.echo(lines.pop(0))
        for sentence in forecasts.sentences(each):
            typer.echo(f"  {sentence}")
    typer.echo(f"\n{forecasts.target(wait_s)}")


def _facts(each: Forecast) -> dict[str, Any]:
    from famulus.cli.pipeline import forecasts

    facts = {**asdict(each), "fit": each.fit.value, "said": list(forecasts.sentences(each))}
    found: dict[str, Any] = _finite(facts)
    return found


def _finite(value: Any) -> Any:
    """JSON has no number for what has no end."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return None if isinstance(value, float) and math.isinf(value) else value
