"""What is wrong with a service whose function is a Spark job is found before Spark is asked anything."""

from __future__ import annotations

from typing import Any

import pytest

from famulus.errors import SettingsError
from famulus.spark.serving import SparkService


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rows_per_batch": 0}, "rows_per_batch: at least 1, not 0"),
        ({"max_wait_ms": -1.0}, "max_wait_ms: at least 0, not -1.0"),
        ({"processes": 2}, "processes: the work is done by Spark"),
    ],
)
def test_settings_that_make_no_sense_are_named_as_they_were_given(settings: dict[str, Any], said: str) -> None:
    nothing: Any = None
    with pytest.raises(SettingsError, match=said):
        SparkService(nothing, "score", nothing, **settings)
