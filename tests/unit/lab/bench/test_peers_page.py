"""The page of a contest: whole, true to its figures, and nothing fetched from elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.pages import Page
from typer.testing import CliRunner

from famulus.lab.bench.figures import Figures
from famulus.lab.bench.peers.page import CUT, bars, command, kinds, page
from famulus.lab.bench.peers.side import PAIRS, SIDES
from famulus.lab.bench.peers.summary import summary
from famulus.lab.commands.bench_echo import peers


def figures(rate: float, cpu_us: float = 50.0, server_us: float = 20.0) -> Figures:
    return {"rate": rate, "p99": 1000.0, "cpu_us_all": cpu_us, "cpu_us_server": server_us}


def result(rounds: dict[str, list[Figures]], **plan: Any) -> dict[str, Any]:
    asked = {"seconds": 3.0, "rounds": 2, "size": 100, "only": [], "secure": False, **plan}
    facts = {"command": "peers", "cores": 2, "machine": "<some>", "python": "3.11.7", "pump": "native", "plan": asked}
    return {**facts, **summary(rounds, PAIRS), "absent": {}, "versions": {"pyzmq": "27.0"}, "rounds": rounds}


EVERYBODY = {name: [figures(1000.0 + number), figures(3000.0 + number)] for number, name in enumerate(SIDES)}


def drawn(medians: dict[str, Figures], of: str = "rate") -> Any:
    spread = {name: {of: {"min": each[of] / 2, "max": each[of] * 2}} for name, each in medians.items()}
    (spec,) = Page(bars("kind", of, medians, spread)).specs
    return spec


OURS, THEIRS = "famulus_request_64", "nats_request_64"


# -- bars -------------------------------------------------------------------------------------------------------------


def test_a_bar_is_as_long_as_its_value_with_its_range_and_marked_as_far_as_its_part() -> None:
    spec = drawn({OURS: figures(0.0, 60.0, 20.0), THEIRS: figures(0.0, 80.0, 90.0)}, "cpu_us_all")
    parts, wholes = spec["traces"]
    assert wholes["x"] == [60.0, 80.0]
    assert parts["x"] == [20.0, 80.0], "no part is longer than the whole"
    assert (wholes["error_x"]["array"], wholes["error_x"]["arrayminus"]) == ([60.0, 80.0], [30.0, 40.0])
    assert wholes["y"] == [f"{OURS}<br>60 µs", f"{THEIRS}<br>80 µs"]


def test_whoever_has_no_script_reads_the_values_in_a_table() -> None:
    spread = {OURS: {"rate": {"min": 1.0, "max": 9000.0}}}
    assert f"{OURS} 5,000" in Page(bars("kind", "rate", {OURS: figures(5000.0)}, spread)).text


def test_ours_has_a_colour_of_its_own() -> None:
    colours = drawn({OURS: figures(1.0), THEIRS: figures(2.0)})["traces"][0]["marker"]["color"]
    assert len(set(colours)) == 2


def test_a_bar_that_would_dwarf_ours_is_cut_and_says_its_value() -> None:
    spec = drawn({OURS: figures(10.0), THEIRS: figures(1000.0)})
    assert spec["layout"]["xaxis"]["range"] == [0, 10.0 * CUT]
    assert spec["traces"][0]["y"][1].endswith("<br>1,000")


@pytest.mark.parametrize("medians", [{THEIRS: figures(0.0)}, {OURS: figures(0.0), THEIRS: figures(5.0)}])
def test_there_is_a_scale_whatever_was_measured(medians: dict[str, Figures]) -> None:
    low, edge = drawn(medians)["layout"]["xaxis"]["range"]
    assert low == 0 < edge


# -- the page ---------------------------------------------------------------------------------------------------------


def test_sides_are_grouped_by_what_they_have_in_common() -> None:
    groups = kinds(EVERYBODY, 100)
    titles = [
        "One in flight, 100 bytes",
        "64 in flight, 100 bytes",
        "1,000 in flight, 100 bytes",
        "16 in flight, 1 MiB",
    ]
    assert list(groups) == titles
    assert sorted(name for names in groups.values() for name in names) == sorted(SIDES)
    assert {"gearman_64", "gearman_raw_64", "famulus_map_64"} <= set(groups[titles[1]])


def test_the_page_needs_nothing_from_elsewhere() -> None:
    shown = Page(page(result(EVERYBODY)))
    assert not shown.loads
    assert not shown.handlers
    assert len(shown.specs) == 8, "four kinds, throughput and CPU time of each"


def test_machine_and_command_stand_at_the_head() -> None:
    head = Page(page(result(EVERYBODY, only=["nats", "famulus"]))).text.partition("Throughput")[0]
    assert "2 cores, <some>, Python 3.11.7, native pump" in head
    assert "famulus bench peers --seconds 3 --rounds 2 --size 100 --only nats --only famulus" in head


def test_a_command_can_be_given_to_a_shell() -> None:
    assert command({"seconds": 0.5, "rounds": 1, "size": 8, "only": ["a b"], "secure": False}).endswith("--only 'a b'")


def test_the_best_stands_on_top() -> None:
    rounds = {"famulus_request_64": [figures(100, cpu_us=90)], "nats_request_64": [figures(300, cpu_us=30)]}
    rounds["celery_64"] = [figures(200, cpu_us=60)]
    best_first = ["nats_request_64", "celery_64", "famulus_request_64"]
    for spec in Page(page(result(rounds))).specs:
        names = [name.partition("<br>")[0] for name in spec["traces"][0]["y"]]
        assert names == best_first, "of throughput the most, of CPU time the least"
        assert spec["layout"]["yaxis"]["autorange"] == "reversed", "the first on top"


def test_ratios_stand_there_with_their_range_and_losses_are_marked() -> None:
    rounds = {
        "famulus_request_1": [figures(100), figures(300)],
        "nats_request_1": [figures(400), figures(400)],
        "famulus_request_64": [figures(3000)],
        "celery_64": [figures(25)],
    }
    text = page(result(rounds))
    assert "famulus_request_1 / nats_request_1 0.50 0.25 to 0.75" in Page(text).text
    assert '<span class="badge bad">0.50</span>' in text
    assert '<span class="badge good">120</span>' in text


def test_the_absent_are_named_with_the_reason() -> None:
    nobody = result({}) | {"absent": {"nats": "no program <nats-server>"}}
    text = Page(page(nobody)).text
    assert "nats no program <nats-server>" in text
    assert "Nobody was measured" in text
    assert "Absent" not in Page(page(result(EVERYBODY))).text


# -- the command ------------------------------------------------------------------------------------------------------

app = typer.Typer()
app.command()(peers)


def test_the_command_writes_the_page_beside_its_figures(tmp_path: Path) -> None:
    file = tmp_path / "peers.html"
    options = ["--seconds", "0.2", "--rounds", "1", "--only", "proxy_1000", "--json", "--html", str(file)]
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 0, f"{done.output} {done.exception}"
    text = file.read_text("utf-8")
    rate = json.loads(done.stdout)["medians"]["proxy_1000"]["rate"]
    assert f"{rate:,.0f}" in text
    assert "--only proxy_1000" in text
    assert f"written to {file}" in done.stderr


def test_a_file_that_cannot_be_written_is_noticed_before_anything_runs(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["--html", str(tmp_path / "no" / "folder.html")])
    assert done.exit_code == 2
    assert "--html" in done.stderr
