"""Whoever imports Famulus does not wait for Spark."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = "import sys; print(*sorted({'pyspark', 'pyarrow', 'pandas'} & set(sys.modules)))"


@pytest.mark.parametrize(
    ("imports", "loaded"),
    [
        ("import famulus, famulus.spark; dir(famulus.spark)", ""),
        # What an executor needs, and a driver before it has a DataFrame.
        ("from famulus.spark import ask, asking, AskCounts; import famulus.spark.partition", "pyarrow"),
    ],
)
def test_spark_is_loaded_when_it_is_needed(imports: str, loaded: str) -> None:
    ran = subprocess.run([sys.executable, "-c", f"{imports}; {LOADED}"], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == loaded


def test_there_is_nothing_by_another_name() -> None:
    import famulus.spark

    assert callable(famulus.spark.ask)
    assert {"ask", "asking"} <= set(dir(famulus.spark))
    with pytest.raises(AttributeError, match="has no attribute 'aks'"):
        famulus.spark.aks  # type: ignore[attr-defined]  # noqa: B018
