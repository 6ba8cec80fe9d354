"""Sentences made from columns, in good English for one and for many."""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

_SLOT: Final = re.compile(r"\{([\w.]+)(?::(?:(\.\df)|([^|}]+)\|([^}]+)))?\}")


def said(template: str, **columns: Column) -> Column:
    """A sentence with the text of a column in place of each name in braces: one of those given here, or of the rows.

    `{share:.1f}` has one digit after the point. `{rows:# row is|# rows are}` is one text for 1, another for all else.
    """
    slots = [
        _text(columns[name] if name in columns else F.col(name), digits, one, many)
        for name, digits, one, many in _SLOT.findall(template)
    ]
    return F.format_string(_SLOT.sub("%s", template.replace("%", "%%")), *slots) if slots else F.lit(template)


def _text(column: Column, digits: str, one: str, many: str) -> Column:
    if digits:
        return F.format_string(f"%{digits}", column)
    # As a text, or a number would be formatted for some locale.
    text = column.cast("string")
    if not one:
        return text
    return F.when(column == 1, one.replace("#", "1")).otherwise(F.replace(F.lit(many), F.lit("#"), text))
