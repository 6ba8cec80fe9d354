"""The tables that the pipeline makes, and their columns, as `schemas.toml` has them. Knows no Spark."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from enum import Enum
from importlib.resources import files
from typing import Final

from famulus.journal.schema import Kind, described


class More(Enum):
    """What a column can hold besides the kinds that the journal knows."""

    DOUBLE = "double"
    DATE = "date"
    #: An array of (bucket int, count long), sorted by bucket; `columns.bucket_of` says which value is in which.
    HISTOGRAM = "histogram"
    #: An array of names, sorted.
    TEXTS = "texts"
    #: An array of (broker text, at instant, delay_ms long), sorted by instant and broker.
    ARRIVALS = "arrivals"


@dataclass(frozen=True, slots=True)
class TableColumn:
    name: str
    kind: Kind | More
    meaning: str
    nullable: bool = False


#: Of each quantile that is kept: its name, and its share in parts per million, so that ranks are exact.
QUANTILES: Final = {"p50": 500_000, "p90": 900_000, "p99": 990_000, "p999": 999_000}

_FILE: Final = tomllib.loads((files(__package__) / "schemas.toml").read_text("utf-8"))
_KINDS: Final[dict[str, Kind | More]] = {kind.value: kind for kind in (*Kind, *More)}

#: In the order in which they can be made.
TABLES: Final = {
    table: tuple(
        TableColumn(name, _KINDS[kind], meaning, null)
        for name, kind, meaning, null in described(lines, _FILE["groups"])
    )
    for table, lines in _FILE["tables"].items()
}
