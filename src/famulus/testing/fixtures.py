"""Fixtures for pytest. In your conftest.py: from famulus.testing.fixtures import famulus_broker

They are imported by name and not loaded by themselves, so that nothing happens in the tests of other projects that
merely have Famulus installed, and whoever reads a test sees where its broker comes from.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from famulus.testing.running_broker import RunningBroker, running_broker


@pytest.fixture(scope="session")
def famulus_broker() -> Iterator[RunningBroker]:
    """One broker for all tests: it starts in about a second, and services come and go with their workers."""
    with running_broker() as broker:
        yield broker
