"""What holds for all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from tests import stolen_time
from tests.longer import examples
from tests.turns import Turns, in_turn

from famulus._plain import is_compiled

REPOSITORY = Path(__file__).parents[1]

# How long an example takes says more about the machine and its other tenants than about the code.
settings.register_profile("any machine", deadline=None, max_examples=examples(60))
settings.load_profile("any machine")

# A shell has whatever it runs in the background ignore Ctrl-C, and so would all that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Brokers that a test starts must not write into the journal of whoever runs the tests.
_STATE = TemporaryDirectory(prefix="famulus-tests-")
os.environ["XDG_STATE_HOME"] = _STATE.name


def pytest_sessionstart() -> None:
    """A compiled module hides its source: tests of a stale one would say nothing about the code at hand."""
    sources = (REPOSITORY / "compiled.txt").read_text().split()
    digest = sha256(b"".join((REPOSITORY / name).read_bytes() for name in sources)).hexdigest()
    built_from = REPOSITORY / "compiled.sha256"
    if is_compiled() and built_from.exists() and built_from.read_text() != digest:
        pytest.exit("a source in compiled.txt was changed after it was compiled: run ./famulus doctor first", 3)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests are made, and all of them stay: neither now nor later is there any garbage among them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionfinish() -> None:
    """DuckDB complains, when Python ends, of whatever it cannot take back."""
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    stolen_time.run(item, nextitem)
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    stolen_time.summary(terminalreporter)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Turns | None:
    return Turns(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only in a process that is one of several: else the order is the one in which they are written down."""
    if hasattr(config, "workerinput"):
        items[:] = in_turn(items)
