"""The tables of the journal and their columns, as defined in `schema.toml`.

Knows neither Arrow nor Spark; `arrow` and the pipeline each make their own schema from it. A file has VERSION and the
name of its table in its metadata. A reader reads files of its own version and of older ones (columns that those lack
are null), and leaves newer ones alone.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib.resources import files
from typing import Final

VERSION: Final = 3
#: Keys in the metadata of a file.
VERSION_KEY: Final = "famulus.journal.version"
TABLE_KEY: Final = "famulus.journal.table"


class Kind(Enum):
    """What a column holds."""

    TEXT = "text"
    INT = "int"  # 32 bits
    LONG = "long"  # 64 bits
    BOOL = "bool"
    INSTANT = "instant"  # microseconds, UTC
    # Only the pipeline's own tables have these.
    DOUBLE = "double"
    DATE = "date"
    #: An array of (bucket int, count long), sorted by bucket: `pipeline.columnar.groups.bucket_of` defines them.
    HISTOGRAM = "histogram"
    #: An array of names, sorted.
    TEXTS = "texts"
    #: An array of (broker text, at instant, delay_ms long), sorted by instant and broker.
    ARRIVALS = "arrivals"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: Kind
    meaning: str
    nullable: bool = False


_FILE: Final = tomllib.loads((files(__package__) / "schema.toml").read_text("utf-8"))
_LINE: Final = re.compile(r"(\w+) (\w+)(\??): (.+)")


def columns_of(lines: Sequence[str], groups: Mapping[str, Sequence[str]]) -> Iterator[Column]:
    """The columns of a table, as defined by lines of such a file."""
    for line in lines:
        if line.startswith("+"):
            yield from columns_of(groups[line[1:]], groups)
            continue
        found = _LINE.fullmatch(line)
        assert found is not None, line
        name, kind, null, meaning = found.groups()
        yield Column(name, Kind(kind), meaning, bool(null))


TABLES: Final = {table: tuple(columns_of(lines, _FILE["groups"])) for table, lines in _FILE["tables"].items()}
#: Texts that occur again and again, and are written as dictionaries.
REPEATED_TEXTS: Final = {
    name: [column.name for column in columns if column.kind is Kind.TEXT and column.name != "message_id"]
    for name, columns in TABLES.items()
}
#: The column with the time of a row: files are laid out by its date and hour.
TIME_COLUMN: Final = {name: "ended" if name == "tasks" else "at" for name in TABLES}
