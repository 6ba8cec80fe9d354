"""The doctor finds what is wrong with a machine, and nothing wrong with a good one."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from famulus.cli.doctor import Facts, judge
from famulus.cli.main import new_app

app = new_app()

GOOD = Facts(
    famulus="0.1.0",
    python="3.11.7",
    pyzmq="27.3.0",
    libzmq="4.3.5",
    curve=True,
    msgspec="0.22.0",
    java="none",
    pump="native",
    pump_why_not_native="",
    core="compiled",
    python_optimised=True,
    cores=8,
    memory_mib=16_384,
    open_files_soft=65_536,
    open_files_hard=-1,
    somaxconn=4096,
    root_user=False,
)


def test_json_has_every_fact_and_every_warning() -> None:
    result = CliRunner().invoke(app, ["doctor", "--json"])
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert set(report) == {"facts", "warnings"}
    assert set(report["facts"]) == set(Facts.__struct_fields__)
    assert report["facts"]["pump"] in ("native", "python")
    assert all(set(warning) == {"problem", "remedy"} for warning in report["warnings"])


def test_text_names_the_pump_and_fits_a_pipe() -> None:
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0
    assert "pump" in result.stdout
    assert "\x1b[" not in result.stdout


def test_a_good_machine_has_nothing_to_mend() -> None:
    assert judge(GOOD) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"open_files_soft": 1024}, "open files"),
        ({"libzmq": "4.3.4"}, "libzmq 4.3.4"),
        ({"curve": False}, "CURVE"),
        ({"pump": "python", "pump_why_not_native": "no such file"}, "no such file"),
        ({"core": "python"}, "plain Python"),
        ({"somaxconn": 128}, "somaxconn"),
        ({"python_optimised": False}, "optimizations"),
        ({"cores": 2}, "2 cores"),
        ({"root_user": True}, "root"),
    ],
    ids=str,
)
def test_each_fault_is_found_and_has_a_remedy(change: dict[str, Any], word: str) -> None:
    (finding,) = judge(msgspec.structs.replace(GOOD, **change))
    assert word in finding.problem
    assert finding.remedy


def test_limits_that_are_endless_or_unknown_are_no_faults() -> None:
    assert judge(msgspec.structs.replace(GOOD, open_files_soft=-1, somaxconn=None)) == []
