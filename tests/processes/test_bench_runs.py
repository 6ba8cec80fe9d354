"""Small runs of the measurements in `famulus.lab.bench`, with real brokers, workers and clients.

Most of them keep all cores busy for seconds, and are a longer run.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.longer import longer
from tests.pages import Page
from tests.processes.conftest import wait_until
from typer.testing import CliRunner

from famulus.lab.bench import arrivals, batch, latency, latency_page, policy, scale, streams
from famulus.lab.bench.peers import nats
from famulus.lab.bench.peers.peer import Needs, absence
from famulus.lab.bench.steps import Limits
from famulus.lab.commands.bench_echo import peers
from famulus.wire.inner import POLICIES

app = typer.Typer()
app.command()(peers)


def test_a_real_run_has_an_outcome_for_every_task() -> None:
    told: list[str] = []
    result = latency.measure(latency.Plan(rates=(200.0, 400.0), seconds=0.4, warm_up_s=0.1, rounds=1), told.append)
    assert [rate["rate"] for rate in result["rates"]] == [200.0, 400.0]
    for rate in result["rates"]:
        assert abs(rate["offered"] - rate["rate"] * 0.4) <= 1
        assert rate["outcomes"] == {"OK": rate["offered"]}
        assert 0 < rate["latency_ns"]["p50"] <= rate["latency_ns"]["max"]
    assert result["saturation_per_s"] is None
    assert len(told) == 2
    assert len(Page(latency_page.page(result)).specs) == 2


@longer
def test_a_small_crowd_is_measured() -> None:
    limits = Limits(workers=30, connections=3, size=1024, window=10)
    told: list[str] = []
    result = scale.measure(scale.Plan(limits, seconds=0.3, warm_up_s=0.1, idle_s=0.3, rounds=1), told.append)
    assert result["warning"] == ""
    assert len(result["steps"]) == 2 + 2 + 2 + 2 + 2
    _check(scale.OURS, result, result, told)
    if why_not := absence(Needs(nats.PROGRAMS)):
        assert result["absent"] == {scale.NATS: why_not}
    else:
        assert len(result["beside"][scale.NATS]["steps"]) == 2 + 2 + 2 + 2
        _check(scale.NATS, result["beside"][scale.NATS], result, told)


def _check(server: str, figures: dict[str, Any], result: dict[str, Any], told: list[str]) -> None:
    crowds = [crowd for crowd in result["crowds"] if crowd["server"] == server]
    assert [(crowd["connected"], crowd["connected_at_the_end"]) for crowd in crowds] == [(10, 10), (30, 30)]
    for each in figures["steps"]:
        assert each["rate"] > 0, each
        assert each["outcomes"].keys() == {"OK"}, each
    # CPU time is told in ticks of 10 ms: so short a run may have seen none at all.
    assert figures["growth"] >= 0
    assert any(f"{server}: 30 workers connected" in sentence for sentence in told)


@longer
def test_a_small_crowd_comes_with_keys_and_without() -> None:
    told: list[str] = []
    result = arrivals.measure(arrivals.Plan(30, 100.0, rounds=1), lambda side, _: told.append(side))
    assert told == [arrivals.PLAIN, arrivals.KEYS]
    assert result["handshakes_per_s"] > 0
    for figures in result["medians"].values():
        assert figures["connected"] == 30
        assert figures["not_ok_before"] == figures["not_ok_meanwhile"] == 0
        assert 0 < figures["p50_ms_meanwhile"] <= figures["p99_ms_meanwhile"]


@longer
def test_a_short_run_of_all_policies() -> None:
    told: list[str] = []
    plan = policy.Plan(work_ms=5.0, seconds=1.0, warm_up_s=0.5, rounds=1)
    result = policy.measure(plan, told.append, lambda side, _: told.append(side))
    assert told[:4] == list(POLICIES)
    assert result["p99_ratios"]["lru"] == 1.0
    assert all(figures["not_ok"] == 0 for figures in result["medians"].values())
    # No key moves that need not, however busy the machine is.
    assert result["keys_kept"] == 1.0
    assert 0.05 < result["keys_moved"] < 0.25


@longer
def test_a_short_run_with_batches_and_without() -> None:
    plan = batch.Plan(seconds=1.0, warm_up_s=0.3, rounds=1)
    result = batch.measure(plan, lambda side, _: None)
    assert all(figures["not_ok"] == 0 for figures in result["medians"].values())
    # At least 8 is promised, of 28 that would be the best; and this machine may be busy.
    assert result["ratio"] > 4


@longer
@pytest.mark.parametrize("client", ["threads", "asyncio"])
def test_a_short_run_of_streams(client: str) -> None:
    told: list[str] = []
    plan = streams.Plan(parts=5000, client=client, rounds=1)
    result = streams.measure(plan, lambda side, _: told.append(side))
    assert told == ["stream", "map"]
    for figures in result["medians"].values():
        assert figures["per_s"] > 100
        assert {"cpu_us_client", "cpu_us_broker", "cpu_us_worker"} <= figures.keys()
        assert figures["grown_kib_broker"] < 5000
    assert result["ratio"] > 0


def only(*names: str) -> list[str]:
    return [word for name in names for word in ("--only", name)]


@longer
def test_a_small_run_with_keys() -> None:
    names = ("famulus_map_1000", "secure_famulus_map_1000")
    done = CliRunner().invoke(app, ["--secure", "--seconds", "0.3", "--rounds", "1", "--json", *only(*names)])
    assert done.exit_code == 0, f"{done.output} {done.exception}"
    result: dict[str, Any] = json.loads(done.stdout)
    assert set(result["medians"]) == set(names)
    assert result["ratios"].keys() == {"secure_plain_1000"}


@longer
def test_a_small_run_of_what_is_always_there() -> None:
    names = ("famulus_request_64", "famulus_map_1000", "proxy_1000")
    done = CliRunner().invoke(app, ["--seconds", "0.3", "--rounds", "1", "--json", *only(*names)])
    assert done.exit_code == 0, f"{done.output} {done.exception}"
    result: dict[str, Any] = json.loads(done.stdout)
    medians = result["medians"]
    assert set(medians) == set(names)
    expected = medians["famulus_map_1000"]["rate"] / medians["proxy_1000"]["rate"]
    assert result["ratios"] == {"proxy_1000": pytest.approx(expected)}
    assert result["broker_cpu_us"] == medians["famulus_map_1000"]["cpu_us_server"] > 0
    for each in medians.values():
        assert each["tasks"] > 0
        assert 0 < each["p50"] <= each["p99"] <= each["p99.9"]
        parts = [each[f"cpu_us_{part}"] for part in ("server", "worker", "client")]
        assert each["cpu_us_all"] == pytest.approx(sum(parts))
    assert result["cores"] >= 1
    assert "pyzmq" in result["versions"]
    assert "famulus_map_1000" in done.stderr


@longer
def test_the_table_names_sides_and_ratios() -> None:
    done = CliRunner().invoke(app, ["--seconds", "0.2", "--rounds", "1", *only("famulus_map_1mib", "proxy_1mib")])
    assert done.exit_code == 0, f"{done.output} {done.exception}"
    assert "famulus_map_1mib" in done.stdout
    assert "times theirs" in done.stdout


SCRIPT = """
import typer
from famulus.lab.commands.bench_echo import peers
from famulus.wire.inner import POLICIES
app = typer.Typer()
app.command()(peers)
app()
"""


@pytest.mark.parametrize("after_s", [0.7, 3.0])
def test_ctrl_c_leaves_nobody_behind(after_s: float, tmp_path: Path) -> None:
    """Early, while they start; and late, while they work."""
    mark = str(tmp_path)
    command = [sys.executable, "-c", SCRIPT, "--seconds", "30", *only("famulus_request_1")]
    run = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={"PATH": "", "MARK": mark}, cwd=tmp_path
    )
    time.sleep(after_s)
    run.send_signal(signal.SIGINT)
    assert run.wait(60) != 0
    # A broker ends its own processes by itself, but it may be stopped before it has told them all.
    wait_until(lambda: not marked(mark), what="the end of all")


def marked(mark: str) -> list[int]:
    """Processes whose environment says that they come from this test."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue
        if f"MARK={mark}\0".encode() in environment:
            found.append(int(folder.name))
    return found
