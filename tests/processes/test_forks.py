"""Programs that fork while they have clients or workers: both sides go on, and neither touches what is the other's."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from tests.processes.conftest import HERE, BrokerProcess, Process
from tests.processes.forking import PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_after_a_fork(name: str, served: BrokerProcess, processes: Callable[..., Process]) -> None:
    program = processes(sys.executable, str(HERE / "forking.py"), name, served.frontend, served.backend)
    assert program.wait(60) == 0, program.output
    assert program.lines[-1] == "well", program.output
