"""What can be imported from `famulus`, and that a shell shows it."""

from __future__ import annotations

import subprocess
import sys

import famulus


def test_every_name_is_there_and_is_shown() -> None:
    for name in famulus.__all__:
        assert getattr(famulus, name) is not None
        assert name in dir(famulus)


def test_nothing_else_is_shown() -> None:
    assert {name for name in dir(famulus) if not name.startswith("__")} == {*famulus.__all__} - {"__version__"}


def test_to_look_imports_nothing_more() -> None:
    program = (
        "import sys, famulus; dir(famulus); assert not {'famulus.client.aio', 'famulus.worker.worker'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
