"""The tables that the pipeline makes, and their columns, as `schemas.toml` has them. Knows no Spark."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Final

from famulus.journal.schema import columns_of

#: The quantiles that are kept: name, and share in parts per million, so that ranks are exact.
QUANTILES: Final = {"p50": 500_000, "p90": 900_000, "p99": 990_000, "p999": 999_000}

_FILE: Final = tomllib.loads((files(__package__) / "schemas.toml").read_text("utf-8"))
#: In the order in which they can be made.
TABLES: Final = {table: tuple(columns_of(lines, _FILE["groups"])) for table, lines in _FILE["tables"].items()}
