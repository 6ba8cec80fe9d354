"""The report, made of tables with a few rows each."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.pages import Page

import famulus
from famulus.journal.arrow import TYPES
from famulus.journal.schema import Kind
from famulus.pipeline import report
from famulus.pipeline.report.plot import DOT, figure, line, time_axis
from famulus.pipeline.tables import schemas

START = datetime(2026, 3, 2, 8, tzinfo=UTC)
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&%{x}"

ARROW: dict[Any, pa.DataType] = {
    **TYPES,
    Kind.DOUBLE: pa.float64(),
    Kind.DATE: pa.date32(),
    Kind.HISTOGRAM: pa.list_(pa.struct([("bucket", pa.int32()), ("count", pa.int64())])),
    Kind.TEXTS: pa.list_(pa.string()),
    Kind.ARRIVALS: pa.list_(
        pa.struct([("broker", pa.string()), ("at", TYPES[Kind.INSTANT]), ("delay_ms", pa.int64())])
    ),
}
#: What a column holds that a test does not care about.
PLAIN: dict[Any, Any] = {
    Kind.TEXT: "some",
    Kind.INT: 1,
    Kind.LONG: 1,
    Kind.BOOL: True,
    Kind.INSTANT: START,
    Kind.DOUBLE: 0.5,
    Kind.DATE: START.date(),
    Kind.HISTOGRAM: [{"bucket": 270, "count": 60}, {"bucket": 300, "count": 1}],
    Kind.TEXTS: ["some"],
    Kind.ARRIVALS: [{"broker": "alfa", "at": START, "delay_ms": 0}],
}

#: In the order of the page.
SECTIONS = (
    "findings", "traffic", "latency", "time_spent", "objectives", "workers", "failovers", "brokers", "config",
    "capacity", "anomalies", "audit",
)  # fmt: skip

Put = Callable[..., None]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Writes a table as the jobs do; whatever a row does not name is something plain."""

    def write(name: str, *rows: dict[str, Any]) -> None:
        columns = [column for column in schemas.TABLES[name] if column.name not in ("date", "hour")]
        schema = pa.schema([(column.name, ARROW[column.kind]) for column in columns])
        full = [{column.name: row.get(column.name, PLAIN[column.kind]) for column in columns} for row in rows]
        folder = tmp_path / "tables" / name
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(full, schema=schema), folder / "part-00.parquet")

    return write


def made(tmp_path: Path) -> str:
    return report.write(tmp_path / "tables", tmp_path / "report.html").read_text(encoding="utf-8")


def minutes(service: str = "echo", count: int = 30, **more: Any) -> list[dict[str, Any]]:
    counts = {"tasks": 61, "ok": 60, "errors": 1, "rejected": 0, "unknown": 0, "retries": 0}
    return [
        {"minute": START + timedelta(minutes=number), "service": service, "broker": "alfa", **counts, **more}
        for number in range(count)
    ]


def test_no_tables_make_an_honest_page(tmp_path: Path) -> None:
    page = Page(made(tmp_path))
    assert "No tasks yet" in page.text
    for words in (
        "No findings",
        "No tasks in this span",
        "No service has an objective",
        "No worker had a task",
        "No failovers in this span",
        "No broker told its load",
        "No edits of the config",
        "nothing to size",
        "No anomalies",
        "The audit is empty",
    ):
        assert words in page.text, words
    assert [name for name in page.ids if name in SECTIONS] == list(SECTIONS)
    assert not page.specs


def test_nothing_is_loaded_from_anywhere(tmp_path: Path, put: Put) -> None:
    put("service_minutes", *minutes())
    source = made(tmp_path)
    page = Page(source)
    assert page.loads == []
    assert "://" not in source
    assert "default-src 'none'" in source
    assert source.count('id="plotly"') == 1
    packed = re.search(r'id="plotly">([^<]+)<', source)
    assert packed is not None
    assert b"plotly.js v" in gzip.decompress(base64.b64decode(packed[1]))[:200]
    assert len(source) < 2_500_000


def test_the_figures_are_those_of_the_tables(tmp_path: Path, put: Put) -> None:
    put("service_minutes", *minutes("echo"), *minutes("mail", tasks=122, ok=122, errors=0))
    page = Page(made(tmp_path))
    assert "5,490" in page.text  # 30 x (61 + 122) tasks
    assert "99.45 %" in page.text
    assert "2026-03-02 08:00 to 08:29 UTC" in page.text
    rate = next(spec for spec in page.specs if spec["layout"]["yaxis"].get("title"))
    assert [trace["name"] for trace in rate["traces"]] == ["mail", "echo"]
    assert rate["traces"][0]["y"][0] == pytest.approx(122 / 60)
    # Bucket 270: e to the power of 270.5/16, in nanoseconds.
    assert "22.0 ms" in page.text or "22 ms" in page.text


def test_an_empty_audit_is_a_good_verdict(tmp_path: Path, put: Put) -> None:
    put("service_minutes", *minutes())
    put("audit")
    assert "Every task is accounted for The audit found nothing to explain." in Page(made(tmp_path)).text


def test_what_is_explained_does_not_spoil_the_verdict(tmp_path: Path, put: Put) -> None:
    put("service_minutes", *minutes())
    quiet = {"explained": True, "rows": 1, "untold": None}
    put("audit", {"kind": "late_answer", **quiet}, {"kind": "late_answer", **quiet})
    text = Page(made(tmp_path)).text
    assert "Every task is accounted for The audit has 2 entries, and each has its explanation." in text


def test_what_a_journal_cannot_know_is_in_the_headline(tmp_path: Path, put: Put) -> None:
    put("service_minutes", *minutes())
    crash = {"kind": "crash_window", "explained": True, "rows": 1, "untold": 165}
    put(
        "audit",
        crash,
        {"kind": "no_outcome", "explained": True, "rows": 1, "untold": None},
        {"kind": "gap", "explained": True, "rows": 9, "untold": None},
    )
    text = Page(made(tmp_path)).text
    assert "Every task is accounted for" not in text
    assert (
        "Every task that the journal knows of is accounted for What it cannot know: how 1 task ended, of which the "
        "rows were lost; what a crash took with it before it was written down, up to about 165 tasks; what stood in 9 "
        "rows that could not be written."
    ) in text


def test_after_a_crash_nobody_says_that_every_task_is_accounted_for(tmp_path: Path, put: Put) -> None:
    """Also if there seems to have been nothing to do: a task may just have come."""
    put("service_minutes", *minutes())
    put("audit", {"kind": "crash_window", "explained": True, "rows": 0, "untold": 0})
    text = Page(made(tmp_path)).text
    assert "Every task is accounted for" not in text
    assert "What it cannot know: what a crash took with it before it was written down, most likely nothing." in text


def test_what_is_not_explained_is_the_headline(tmp_path: Path, put: Put) -> None:
    put("service_minutes", *minutes())
    lost = {"kind": "no_outcome", "explained": False, "severity": "error", "message_id": "abc123"}
    put("audit", {"kind": "gap", "explained": True}, lost, lost, {"kind": "two_outcomes", "explained": False})
    text = Page(made(tmp_path)).text
    assert "Not every task is accounted for 2 tasks have no outcome, 1 task has two outcomes." in text
    assert "abc123" in text
    assert "Every task is accounted for" not in text


def test_whatever_is_said_in_names_stays_text(tmp_path: Path, put: Put) -> None:
    """Every text of every table is hostile. The page has the tags that it has with harmless ones."""

    def fill(words: str) -> None:
        for name, columns in schemas.TABLES.items():
            texts = {column.name: words for column in columns if column.kind is Kind.TEXT}
            lists = {column.name: [words] for column in columns if column.kind is Kind.TEXTS}
            kinds = {"kind": "worker_lost"} if name == "failovers" else {}
            put(name, {**texts, **lists, "minute": START, **kinds})

    fill("harmless")
    plain = Page(made(tmp_path))
    fill(HOSTILE)
    source = made(tmp_path)
    page = Page(source)
    assert page.tags == plain.tags
    assert page.handlers == page.loads == []
    assert "<script>alert" not in source
    assert "<img" not in source
    assert "alert(1)" in page.text  # shown, as text
    shown = json.dumps(page.specs)
    assert "alert(1)" in shown
    # Plotly reads tags in its texts, so there they are taken apart once more.
    assert "<script" not in shown
    assert "<img" not in shown


def test_findings_name_the_command_that_applies_them(tmp_path: Path, put: Put) -> None:
    value = json.dumps({"timeout_ms": 5000})
    put("findings", {"rank": 2, "id": "f-two", "title": "Second", "key": None, "value": None},
        {"rank": 1, "id": "f-one", "title": "First", "severity": "critical", "key": "service/echo", "value": value},
        {"rank": 3, "id": "f-three", "title": "Third", "key": "service/mail", "value": None})  # fmt: skip
    text = Page(made(tmp_path)).text
    assert text.index("First") < text.index("Second") < text.index("Third")
    assert "famulus findings apply f-one" in text
    assert value in text
    assert "apply f-two" not in text
    assert "apply f-three" not in text
    assert "service/mail" in text


def test_a_long_span_is_put_together_into_steps(tmp_path: Path, put: Put) -> None:
    put("service_minutes", *minutes(count=3000))
    page = Page(made(tmp_path))
    rate = next(spec for spec in page.specs if spec["layout"]["yaxis"].get("title"))
    (trace,) = rate["traces"]
    assert 100 <= len(trace["x"]) <= 240
    assert sum(trace["y"]) * 15 * 60 == pytest.approx(3000 * 61)
    assert "in steps of 15 min" in page.text


def test_many_services_are_a_few_lines_and_the_rest(tmp_path: Path, put: Put) -> None:
    put("service_minutes", *(row for number in range(30) for row in minutes(f"s{number:02d}", 2, tasks=61 + number)))
    page = Page(made(tmp_path))
    rate = next(spec for spec in page.specs if spec["layout"]["yaxis"].get("title"))
    names = [trace["name"] for trace in rate["traces"]]
    assert names == ["s29", "s28", "s27", "s26", "s25", "s24", "s23", "all others"]
    assert sum(sum(trace["y"]) for trace in rate["traces"]) * 60 == pytest.approx(2 * sum(61 + n for n in range(30)))


def test_more_rows_than_one_reads_are_counted(tmp_path: Path, put: Put) -> None:
    put("audit", *({"kind": "late_answer", "explained": True, "message_id": f"m{n:04d}"} for n in range(250)))
    text = Page(made(tmp_path)).text
    assert "and 150 more" in text
    assert "m0000" in text
    assert "m0200" not in text


def test_minutes_of_one_kind_are_one_episode(tmp_path: Path, put: Put) -> None:
    like = {"service": "echo", "measure": "error_share", "direction": "high", "baseline": 0.01, "tasks": 10}
    rows = [
        {**like, "minute": START + timedelta(minutes=number), "value": 0.5 + number / 100, "score": 20.0 + number}
        for number in (0, 1, 2, 20)
    ]
    put("anomalies", *rows)
    text = Page(made(tmp_path)).text
    assert "2 episodes in 1 service." in text
    assert "echo share of errors high 2026-03-02 08:00 3 52 % 1 % 22.0 30" in text


def test_instants_without_a_zone_are_utc(tmp_path: Path) -> None:
    """As Spark writes them unless it is told otherwise."""
    folder = tmp_path / "tables" / "failovers"
    folder.mkdir(parents=True)
    naive = pa.array([datetime(2026, 3, 2, 9, 30)], pa.timestamp("ns"))  # noqa: DTZ001
    texts = {"kind": ["worker_lost"], "lost": ["w1"], "seen_by": [["alfa"]], "services": [["echo"]]}
    counts = {"tasks_hit": [3], "retries": [3], "unknown": [0], "recovery_s": [0.0]}
    pq.write_table(pa.table({**texts, **counts, "seen": naive, "normal": naive}), folder / "part-00.parquet",
                   use_deprecated_int96_timestamps=True)  # fmt: skip
    assert "2026-03-02 09:30:00" in Page(made(tmp_path)).text


def test_the_same_tables_make_the_same_page(tmp_path: Path, put: Put) -> None:
    put("service_minutes", *minutes())
    assert made(tmp_path) == made(tmp_path)


def test_what_is_being_written_is_not_read(tmp_path: Path, put: Put) -> None:
    put("service_minutes", *minutes())
    hidden = tmp_path / "tables" / "service_minutes" / "_staging"
    hidden.mkdir()
    (hidden / "part-01.parquet").write_bytes(b"half")
    (tmp_path / "tables" / "service_minutes" / ".part-02.parquet").write_bytes(b"half")
    assert "1,830" in Page(made(tmp_path)).text


def test_tables_may_lie_at_a_uri(tmp_path: Path, put: Put) -> None:
    put("service_minutes", *minutes())
    here = made(tmp_path)
    page = report.write(f"file://{tmp_path}/tables", tmp_path / "far.html").read_text(encoding="utf-8")
    assert page == here


def test_workers_with_complaints_are_not_crowded_out(tmp_path: Path, put: Put) -> None:
    well = [{"worker": f"well-{number:03d}", "score": 100, "why": ""} for number in range(300)]
    put("worker_health", *well, {"worker": "sick", "score": 40, "why": "lost 9 times"})
    text = Page(made(tmp_path)).text
    assert text.index("sick") < text.index("well-000")
    assert "1 worker with points off" in text
    assert "300 healthy workers" in text
    assert "well-150" not in text
    assert "and 200 more" in text


def palette(sheet: str) -> list[dict[str, str]]:
    """By name, in the light and in the dark."""
    light, _, dark = sheet.partition("@media")
    return [dict(re.findall(r"--(\w+): ?(#\w+)", part.partition("* {")[0])) for part in (light, dark)]


def test_the_report_and_the_dashboard_have_one_palette_and_one_mark() -> None:
    source = Path(famulus.__file__).parent
    mine = (source / "pipeline" / "report" / "static" / "report.css").read_text("utf-8")
    theirs = (source / "web" / "static" / "style.css").read_text("utf-8")
    same = {"ink": "ink", "soft": "soft", "line": "line", "paper": "card", "ground": "paper"}
    same |= {"accent": "ok", "good": "ok", "bad": "error", "warn": "wait", "calm": "busy"}
    for here, there in zip(palette(mine), palette(theirs), strict=True):
        assert {name: here[name] for name in same} == {name: there[other] for name, other in same.items()}
    mark = (source / "web" / "static" / "mark.svg").read_text("utf-8").strip()
    page = (source / "pipeline" / "report" / "static" / "document.html").read_text("utf-8")
    # Inside a page it needs no namespace, and nothing there may look like a link.
    drawing = mark.replace(' xmlns="http://www.w3.org/2000/svg"', ' aria-hidden="true"')
    assert drawing in page


def test_a_point_without_neighbours_can_be_seen() -> None:
    drawn = line("p50", 0, [1, 2, 3, 4, 5, 6], [1.0, None, 2.0, 3.0, None, math.inf], "")
    assert (drawn["mode"], drawn["marker"]["size"]) == ("lines+markers", [DOT, 0, 0, 0, 0, 0])
    assert line("p50", 0, [1], [1.0], "")["marker"]["size"] == [DOT]
    assert line("p50", 0, [1, 2], [1.0, 2.0], "")["mode"] == "lines"


def test_around_an_instant_that_is_alone_there_is_room() -> None:
    at = ["2026-05-01 12:00:00"]
    bar, heat = {"type": "bar", "x": at, "y": [1]}, {"type": "heatmap", "x": at, "y": [1, 2], "z": [[1], [2]]}
    page = figure("Title", "says", [line("a", 0, at, [1.0], ""), bar, heat], {"xaxis": time_axis()})
    spec = json.loads(page.partition('json">')[2].partition("</script>")[0])
    assert spec["layout"]["xaxis"]["range"] == ["2026-05-01 11:30:00", "2026-05-01 12:30:00"]
    assert spec["traces"][1]["width"] == 120_000
    assert spec["traces"][2]["x"] == ["2026-05-01 11:59:00", "2026-05-01 12:01:00"]
    spread = figure("Title", "says", [{**bar, "x": [*at, "2026-05-01 12:01:00"]}], {"xaxis": time_axis()})
    assert '"range"' not in spread
    assert '"width"' not in spread


def test_what_if_there_were_twice_the_load(tmp_path: Path, put: Put) -> None:
    """Of 5 slots 4 are busy: 8 are more than they can do, and so are 4 for 2. A service without slots is left out."""
    busy = {"service": "busy", "erlangs_peak": 4.0, "service_s": 2.5, "slots": 5.0, "slots_missing": 4}
    put("capacity", busy, {**busy, "service": "unseen", "slots": None, "slots_missing": None})
    text = Page(made(tmp_path)).text
    assert "busy some 6.01 s does not keep up: 14 slots needed does not keep up: 9 slots needed" in text
    assert text.count("does not keep up") == 2


def test_what_if_is_left_out_where_no_slots_are_known(tmp_path: Path, put: Put) -> None:
    put("capacity", {"slots": None, "slots_missing": None})
    assert "Twice the load" not in Page(made(tmp_path)).text


def objective(service: str, hour: int, bad: int, burnt: float, **more: Any) -> dict[str, Any]:
    row = {"service": service, "at": START + timedelta(hours=hour), "share": 0.999, "within_ms": 500, "days": 30}
    rates = {"burn_rate": bad / 100 / 0.001, "burnt": burnt, "fast_minutes": 0, "slow_minutes": 0}
    return {**row, "tasks": 100, "good": 100 - bad, "bad": bad, **rates, **more}


def test_objectives_are_told_with_what_is_left_of_their_budgets(tmp_path: Path, put: Put) -> None:
    put(
        "objectives",
        objective("fine", 0, 0, 0.0, within_ms=None, days=1),
        objective("echo", 0, 0, 0.0),
        objective("echo", 25, 3, 15.0, fast_minutes=4, slow_minutes=9),
        objective(HOSTILE, 0, 0, 0.8),
    )
    page = Page(made(tmp_path))
    for words in ("99.9 % OK within 500 ms, over 30 days", "99.9 % OK, over 1 day", "used up", "100 % left",
                  "20 % left", "9 minutes", "× 30", "Day by day", "2026-03-03"):  # fmt: skip
        assert words in page.text, words
    assert page.text.index("used up") < page.text.index("20 % left") < page.text.index("100 % left")
    (spec,) = page.specs
    assert [trace["y"] for trace in spec["traces"]] == [[0.0, 30.0], [0.0], [0.0]]


def test_the_report_says_where_the_time_goes(tmp_path: Path, put: Put) -> None:
    waits = [{"bucket": 270, "count": 60}]
    put("service_minutes", *minutes(queue_hist=waits), *minutes(HOSTILE, queue_hist=[], service_hist=waits))
    page = Page(made(tmp_path))
    section = page.text[page.text.index("The wait ends when") :]
    for words in ("Time spent waiting", "wait p95", "run p95", "total p99", "The part of the time of its tasks"):
        assert words in section, words
    (spec,) = [each for each in page.specs if "% of the time" in str(each["layout"]["yaxis"])]
    assert spec["traces"][0]["name"] == "echo"
    assert set(spec["traces"][1]["y"]) == {0.0}
