"""The page of a contest: whole, true to its figures, and nothing fetched from elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer
from typer.testing import CliRunner

from famulus.lab.bench.figures import Figures
from famulus.lab.bench.peers.bars import CUT, WIDTH, Bar, bars, scale
from famulus.lab.bench.peers.page import command, kinds, page
from famulus.lab.bench.peers.side import PAIRS, SIDES
from famulus.lab.bench.peers.summary import summary
from famulus.lab.commands.bench_echo import peers

SVG = "{http://www.w3.org/2000/svg}"


def figures(rate: float, cpu_us: float = 50.0, server_us: float = 20.0) -> Figures:
    return {"rate": rate, "p99": 1000.0, "cpu_us_all": cpu_us, "cpu_us_server": server_us}


def result(rounds: dict[str, list[Figures]], **plan: Any) -> dict[str, Any]:
    asked = {"seconds": 3.0, "rounds": 2, "size": 100, "only": [], **plan}
    facts = {"command": "peers", "cores": 2, "machine": "<some>", "python": "3.11.7", "pump": "native", "plan": asked}
    return {**facts, **summary(rounds, PAIRS), "absent": {}, "versions": {"pyzmq": "27.0"}, "rounds": rounds}


EVERYBODY = {name: [figures(1000.0 + number), figures(3000.0 + number)] for number, name in enumerate(SIDES)}


def bar(name: str, value: float, *, is_ours: bool = False, spread: float = 0.0) -> Bar:
    return Bar(name, value, f"{value:g}", value - spread, value + spread, value / 2, is_ours)


def boxes(drawing: str, kind: str) -> list[tuple[float, float]]:
    """The left and the right end of each box of a kind."""
    found = [
        each for each in ElementTree.fromstring(drawing).iter(f"{SVG}rect") if kind in each.attrib["class"].split()
    ]
    return [(float(each.attrib["x"]), float(each.attrib["x"]) + float(each.attrib["width"])) for each in found]


# -- bars -------------------------------------------------------------------------------------------------------------


def test_a_bar_is_as_long_as_its_value_and_marked_as_far_as_its_part() -> None:
    drawing = bars("t", [bar("long", 100.0), bar("short", 50.0)])
    (_, longest), (_, half) = boxes(drawing, "rest")
    assert longest == pytest.approx(WIDTH - 1, abs=0.2)
    assert half == pytest.approx(WIDTH / 2, abs=1.0)
    (_, marked), _ = boxes(drawing, "bar")
    assert marked == pytest.approx(WIDTH / 2, abs=1.0)


def test_a_whisker_goes_from_the_least_to_the_largest_and_one_round_has_none() -> None:
    drawing = ElementTree.fromstring(bars("t", [bar("a", 80.0, spread=20.0), bar("b", 10.0)]))
    (whisker,) = [each.attrib["d"] for each in drawing.iter(f"{SVG}path") if each.attrib["class"] == "whisker"]
    ends = re.match(r"M([\d.]+) [\d.]+H([\d.]+)", whisker)
    assert ends
    assert float(ends[1]) == pytest.approx(WIDTH * 0.6, abs=1.5)
    assert float(ends[2]) == pytest.approx(WIDTH, abs=1.5)


def test_a_bar_that_would_dwarf_ours_is_cut_and_says_so() -> None:
    rows = [bar("ours", 10.0, is_ours=True), bar("huge", 1000.0)]
    assert scale(rows) == 10.0 * CUT
    drawing = bars("t", rows)
    assert drawing.count('class="cut"') == 1
    assert max(right for _, right in boxes(drawing, "rest")) <= WIDTH
    assert ">1000<" in drawing


@pytest.mark.parametrize("rows", [[], [bar("nothing", 0.0)], [bar("nothing", 0.0, is_ours=True), bar("much", 5.0)]])
def test_there_is_a_scale_whatever_was_measured(rows: list[Bar]) -> None:
    assert scale(rows) > 0
    ElementTree.fromstring(bars("t", rows))


def test_names_and_titles_are_escaped() -> None:
    root = ElementTree.fromstring(bars('"quoted" <title>', [bar("<&>", 1.0)]))
    assert root.attrib["aria-label"] == '"quoted" <title>'
    assert "<&>" in {text.text for text in root.iter(f"{SVG}text")}


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
    text = page(result(EVERYBODY))
    assert text.count("<svg") == text.count("</svg>") == 8, "four kinds, throughput and CPU time of each"
    assert not re.search(r"<script|<link|<img|@import|url\(|\bsrc=|\bhref=", text)
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(drawing)


def test_machine_and_command_stand_at_the_head() -> None:
    head = page(result(EVERYBODY, only=["nats", "famulus"])).partition("<h2>")[0]
    assert "2 cores, &lt;some&gt;, Python 3.11.7, native pump" in head
    assert "famulus bench peers --seconds 3 --rounds 2 --size 100 --only nats --only famulus" in head


def test_a_command_can_be_given_to_a_shell() -> None:
    assert command({"seconds": 0.5, "rounds": 1, "size": 8, "only": ["a b"]}).endswith("--only 'a b'")


def test_the_best_stands_on_top() -> None:
    rounds = {"famulus_request_64": [figures(100, cpu_us=90)], "nats_request_64": [figures(300, cpu_us=30)]}
    rounds["celery_64"] = [figures(200, cpu_us=60)]
    names = re.findall(r'class="name[^"]*"[^>]*>(\w+)<', page(result(rounds)))
    best_first = ["nats_request_64", "celery_64", "famulus_request_64"]
    assert names == best_first * 2, "of throughput the most, of CPU time the least"


def test_ratios_stand_there_with_their_range_and_losses_are_marked() -> None:
    rounds = {
        "famulus_request_1": [figures(100), figures(300)],
        "nats_request_1": [figures(400), figures(400)],
        "famulus_request_64": [figures(3000)],
        "celery_64": [figures(25)],
    }
    text = page(result(rounds))
    lost = '<td>famulus_request_1 / nats_request_1</td><td class="loss">0.50</td><td>0.25 to 0.75</td>'
    assert lost in text
    assert '<td class="win">120</td>' in text


def test_the_absent_are_named_with_the_reason() -> None:
    nobody = result({}) | {"absent": {"nats": "no program <nats-server>"}}
    text = page(nobody)
    assert "<dt>nats</dt><dd>no program &lt;nats-server&gt;</dd>" in text
    assert "Nobody was measured" in text
    assert "Absent" not in page(result(EVERYBODY))


# -- the command ------------------------------------------------------------------------------------------------------

app = typer.Typer()
app.command()(peers)


def test_the_command_writes_the_page_beside_its_figures(tmp_path: Path) -> None:
    file = tmp_path / "peers.html"
    options = ["--seconds", "0.2", "--rounds", "1", "--only", "proxy_1000", "--json", "--html", str(file)]
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 0, f"{done.output} {done.exception}"
    text = file.read_text("utf-8")
    assert f"{json.loads(done.stdout)['medians']['proxy_1000']['rate']:,.0f}" in text
    assert "--only proxy_1000" in text
    assert f"written to {file}" in done.stderr


def test_a_file_that_cannot_be_written_is_noticed_before_anything_runs(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["--html", str(tmp_path / "no" / "folder.html")])
    assert done.exit_code == 2
    assert "--html" in done.stderr
