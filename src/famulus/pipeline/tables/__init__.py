"""Pure functions from tables to a table, those of one subject in one module.

`ALL` has them in an order in which each can be made: whatever it is made of comes before it.
"""

from __future__ import annotations

from typing import Final

from famulus.pipeline.tables import (
    access,
    anomalies,
    audit,
    capacity,
    config_convergence,
    failovers,
    findings,
    loads,
    losses,
    objectives,
    service_figures,
    task_facts,
    workers,
)
from famulus.pipeline.tables.table import Grain, KeptRows, Table

_TASKS: Final = ("tasks", "open_tasks")
_BROKERS: Final = ("brokers",)

ALL: Final[tuple[Table, ...]] = (
    Table.of(
        task_facts.task_facts,
        Grain.HOURLY,
        neighbours=True,
        by_task=True,
        by_arrow=_TASKS + _BROKERS,
        beside=task_facts.plain_facts,
    ),
    Table.of(service_figures.service_minutes, Grain.HOURLY, by_arrow=_TASKS),
    Table.of(service_figures.service_hours, Grain.HOURLY, by_arrow=_TASKS),
    Table.of(loads.service_loads, Grain.HOURLY, by_arrow=_BROKERS),
    Table.of(workers.worker_hours, Grain.HOURLY, by_arrow=_TASKS),
    Table.of(loads.broker_minutes, Grain.HOURLY, neighbours=True, by_arrow=_BROKERS),
    Table.of(losses.lost_attempts, Grain.HOURLY, by_arrow=_TASKS),
    Table.of(losses.losses, Grain.HOURLY, by_arrow=_BROKERS),
    Table.of(access.refusals, Grain.HOURLY),
    Table.of(access.principal_hours, Grain.HOURLY),
    Table.of(config_convergence.config_events, Grain.HOURLY),
    Table.of(audit.audit, Grain.HOURLY, neighbours=True, by_task=True, by_arrow=_TASKS + _BROKERS),
    Table.of(service_figures.service_days, Grain.WHOLE, keeps=KeptRows("day")),
    Table.of(workers.worker_health, Grain.WHOLE, last_days={"worker_hours": 1}),
    # A loss may go on for long, as whoever is lost again within a minute is lost once.
    Table.of(
        failovers.failovers,
        Grain.WHOLE,
        wants={"service_minutes": failovers.WANTED},
        keeps=KeptRows("seen", days=1, days_before=1),
    ),
    Table.of(config_convergence.config_convergence, Grain.WHOLE, wants={"broker_minutes": config_convergence.WANTED}),
    Table.of(capacity.capacity, Grain.WHOLE, wants=capacity.WANTED),
    Table.of(
        anomalies.anomalies,
        Grain.WHOLE,
        wants={"service_minutes": anomalies.WANTED},
        last_days={"service_minutes": anomalies.DAYS},
    ),
    Table.of(
        objectives.objectives,
        Grain.WHOLE,
        wants={"service_minutes": objectives.WANTED},
        last_days={"service_loads": objectives.TOLD_DAYS},
        # The alarms look back for some hours.
        keeps=KeptRows("at", days_before=1, still_hold=objectives.still_hold, finish=objectives.with_budget),
        needs=("service_loads", "objective"),
    ),
    Table.of(findings.findings, Grain.WHOLE, last_days=findings.LAST_DAYS),
)
#: By name.
TABLES: Final = {table.name: table for table in ALL}

__all__ = ["ALL", "TABLES", "Grain", "Table"]
