"""A broker for the services of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from famulus.testing.running_broker import RunningBroker, running_broker

#: For a command with Spark, on a machine that others use as well.
START_S = 300.0
#: A command that serves a few tasks needs no good compiler, and no archive of Java's classes for the next time.
START_QUICKLY = ("--conf", "spark.driver.extraJavaOptions=-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xlog:disable")


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    """With a short heartbeat, so that a worker that does not say anything is soon lost."""
    with running_broker("--heartbeat-ms", "300") as broker:
        yield broker
