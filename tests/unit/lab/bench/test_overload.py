"""What `famulus bench overload` shows: nothing cut on a narrow terminal, and whose figures are whose."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from famulus.lab.bench import overload
from famulus.lab.bench.overload import Plan, Service
from famulus.lab.commands.bench import app


def test_what_slots_can_do() -> None:
    assert Service("fast", work_ms=8.0, slots=8, timeouts_s=()).capacity_per_s == 1000
    assert Service("slow", work_ms=1000.0, slots=4, timeouts_s=()).capacity_per_s == 4


def test_the_table_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(plan: Plan, tell: Callable[[str], None]) -> dict[str, object]:
        loads = [
            {
                "work_ms": service.work_ms,
                "timeout_s": timeout_s,
                "offered_per_s": plan.factor * service.capacity_per_s,
                "goodput_per_s": 896.4,
                "goodput_ratio": 0.997,
                "unknown_share": 0.012,
                "rejected_overload_per_s": 1_101.0,
                "rejected_expired_per_s": 2.6,
                "ok_p99_ms": 10_541.0,
                "rejected_p99_ms": 0.714,
            }
            for service in plan.services
            for timeout_s in service.timeouts_s
        ]
        return {"loads": loads, "goodput_ratio": 0.997}

    monkeypatch.setattr(overload, "measure", measured)
    shown = CliRunner().invoke(app, ["overload"], env={"COLUMNS": "80"}).stdout.splitlines()
    shown = [" ".join(line.split()) for line in shown]
    assert shown[1] == "work time-out offered OK ratio UNKNOWN rejected OK took no took"
    assert shown[2] == "8.0 ms 200 ms 2,000 896.4 1.00 1.2% 1,103.6 10.54 s 0.7 ms"
    assert shown[8] == "1.00 s 60.00 s 8 896.4 1.00 1.2% 1,103.6 10.54 s 0.7 ms"
    assert shown[9] == "goodput_ratio: 1.00"
