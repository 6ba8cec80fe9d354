"""A broker for the services of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from famulus.testing.running_broker import RunningBroker, running_broker


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    """With a short heartbeat, so that a worker that does not say anything is soon lost."""
    with running_broker("--heartbeat-ms", "300") as broker:
        yield broker
