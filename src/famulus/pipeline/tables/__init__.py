"""One module per table: a pure function from tables to a table, and a description of it.

`ALL` has them in an order in which each can be made: whatever it is made of comes before it.
"""

from __future__ import annotations

from typing import Final

from famulus.pipeline.tables import (
    anomalies,
    audit,
    broker_minutes,
    capacity,
    config_convergence,
    failovers,
    findings,
    losses,
    lost_attempts,
    service_figures,
    service_loads,
    task_facts,
    worker_health,
    worker_hours,
)
from famulus.pipeline.tables.table import Grain, Table

ALL: Final[tuple[Table, ...]] = (
    task_facts.TABLE,
    service_figures.MINUTES,
    service_figures.HOURS,
    service_loads.TABLE,
    worker_hours.TABLE,
    broker_minutes.TABLE,
    lost_attempts.TABLE,
    losses.TABLE,
    audit.TABLE,
    service_figures.DAYS,
    worker_health.TABLE,
    failovers.TABLE,
    config_convergence.TABLE,
    capacity.TABLE,
    anomalies.TABLE,
    findings.TABLE,
)

__all__ = ["ALL", "Grain", "Table"]
