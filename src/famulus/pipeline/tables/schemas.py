"""The tables that the pipeline makes, and their columns, as `schemas.toml` has them. Knows no Spark."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Final

from famulus.journal.schema import columns_of

_FILE: Final = tomllib.loads((files(__package__) / "schemas.toml").read_text("utf-8"))
#: In the order in which they can be made.
TABLES: Final = {table: tuple(columns_of(lines, _FILE["groups"])) for table, lines in _FILE["tables"].items()}
