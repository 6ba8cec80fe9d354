"""Whoever imports Famulus does not wait for Spark."""

from __future__ import annotations

import pkgutil
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
        famulus.spark.aks  # noqa: B018


def test_no_name_is_that_of_a_module() -> None:
    """Once the module is loaded, it would be found in place of what has the name."""
    import famulus.spark

    modules = {module.name for module in pkgutil.iter_modules(famulus.spark.__path__)}
    assert not modules & set(famulus.spark.__all__)
