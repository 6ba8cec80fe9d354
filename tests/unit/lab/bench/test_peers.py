"""The comparison with other brokers: its arithmetic, who is absent, and one small run of what is always there."""

from __future__ import annotations

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from famulus.core.clock import NS_PER_S
from famulus.errors import BenchFailed
from famulus.lab.bench import meter
from famulus.lab.bench.figures import Figures
from famulus.lab.bench.meter import STAMP_BYTES, Meter, Order
from famulus.lab.bench.peers import contest, nats, peer, side
from famulus.lab.bench.peers.peer import Needs, absence
from famulus.lab.bench.peers.summary import broker_cpu_us, ratio_spread, ratios, spread, summary
from famulus.lab.commands.bench_echo import peers

PAIRS = {"nats_1": ("famulus_request_1", "nats_request_1"), "proxy_1000": ("famulus_map_1000", "proxy_1000")}


def figures(rate: float, **others: float) -> Figures:
    return {"rate": rate, "p99": 1e6 / rate, "cpu_us_server": 10.0, **others}


# -- arithmetic -------------------------------------------------------------------------------------------------------


def test_a_ratio_is_our_median_over_theirs() -> None:
    rounds = {
        "famulus_request_1": [figures(300), figures(100), figures(200)],
        "nats_request_1": [figures(50), figures(400), figures(100)],
    }
    result = summary(rounds, PAIRS)
    assert result["ratios"] == {"nats_1": 2.0}, "and the pair that was not measured has none"
    assert result["ratio_spread"] == {"nats_1": {"min": 0.25, "max": 6.0}}
    assert result["medians"]["famulus_request_1"]["rate"] == 200
    assert result["spread"]["nats_request_1"]["rate"] == {"min": 50, "max": 400}
    assert result["p99_1"] == {"famulus": 5000.0, "nats": 10000.0}


def test_half_a_pair_has_no_ratio() -> None:
    assert ratios({"famulus_map_1000": figures(1)}, PAIRS) == {}
    assert ratio_spread({"proxy_1000": [figures(1)]}, PAIRS) == {}


def test_spread_is_of_each_figure() -> None:
    assert spread([{"a": 1.0, "b": 5.0}, {"a": 3.0, "b": 4.0}]) == {
        "a": {"min": 1.0, "max": 3.0},
        "b": {"min": 4.0, "max": 5.0},
    }


@pytest.mark.parametrize(
    ("sides", "expected"),
    [
        ({"famulus_map_1000": 20.0, "famulus_request_1000": 30.0}, 20.0),
        ({"famulus_request_1000": 30.0, "famulus_request_1": 90.0}, 30.0),
        ({"famulus_request_1": 90.0, "proxy_1000": 5.0}, None),
    ],
)
def test_the_cpu_time_of_our_broker_is_that_of_a_wide_window(sides: dict[str, float], expected: float | None) -> None:
    assert broker_cpu_us({name: figures(1, cpu_us_server=cpu_us) for name, cpu_us in sides.items()}) == expected


# -- who takes part ---------------------------------------------------------------------------------------------------

NEEDS = Needs({"some-server": "some-package"}, {"some_module": "some-library"})


def absent(monkeypatch: pytest.MonkeyPatch, needs: Needs, *, program: bool, library: bool) -> str | None:
    """Why, where all programs or libraries are there, or none."""
    monkeypatch.setattr(peer, "find_program", lambda _: "/a/path" if program else None)
    monkeypatch.setattr(peer, "has_library", lambda _: library)
    return absence(needs)


def test_who_has_all_is_not_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert absent(monkeypatch, NEEDS, program=True, library=True) is None
    assert absence(Needs()) is None


def test_who_is_absent_says_what_would_help(monkeypatch: pytest.MonkeyPatch) -> None:
    no_program = absent(monkeypatch, NEEDS, program=False, library=True)
    assert no_program == "no program some-server (Debian package some-package)"
    no_library = absent(monkeypatch, NEEDS, program=True, library=False)
    assert no_library == "no library some_module (pip install some-library)"
    both = absent(monkeypatch, NEEDS, program=False, library=False)
    assert both is not None
    assert both.count(",") == 1


def test_an_absent_peer_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contest, "absence", lambda needs: "not here" if needs is nats.PEER.needs else None)
    monkeypatch.setattr(contest, "one_round", lambda plan, side: figures(10))
    told: list[str] = []
    result = contest.contest(contest.Plan(rounds=2), side.chosen(["nats", "proxy_1000"]), told.append)
    assert result["absent"] == {"nats": "not here"}
    assert {name: len(each) for name, each in result["rounds"].items()} == {"proxy_1000": 2}
    assert told[0] == "nats is absent: not here"


def test_a_peer_that_fails_does_not_spoil_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_round(plan: contest.Plan, side: side.Side) -> Figures:
        if side.peer.name == "proxy":
            raise BenchFailed("no more ports")
        return figures(10)

    monkeypatch.setattr(contest, "one_round", one_round)
    plan = contest.Plan(rounds=3)
    result = contest.contest(plan, side.chosen(["proxy_1000", "famulus_map_1000"]), lambda _: None)
    assert result["absent"]["proxy_1000"] == "failed: no more ports"
    assert {name: len(each) for name, each in result["rounds"].items()} == {"famulus_map_1000": 3}


def test_a_failure_of_ours_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_round(plan: contest.Plan, side: side.Side) -> Figures:
        raise BenchFailed("no more ports")

    monkeypatch.setattr(contest, "one_round", one_round)
    with pytest.raises(BenchFailed):
        contest.contest(contest.Plan(), side.chosen(["famulus_map_1000"]), lambda _: None)


def test_sides_take_turns_there_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    windows: list[int] = []

    def one_round(plan: contest.Plan, side: side.Side) -> Figures:
        windows.append(side.window)
        return figures(10)

    monkeypatch.setattr(contest, "one_round", one_round)
    contest.contest(contest.Plan(rounds=2), side.chosen(["famulus_request_1", "famulus_request_64"]), lambda _: None)
    assert windows == [1, 64, 64, 1]


def test_a_name_is_a_side_or_a_peer() -> None:
    assert list(side.chosen(["proxy_1mib"])) == ["proxy_1mib"]
    assert set(side.chosen(["proxy"])) == {"proxy_1000", "proxy_1mib"}
    assert side.chosen([]) == side.SIDES
    with pytest.raises(side.UnknownSide, match="carrier-pigeon: known are"):
        side.chosen(["carrier-pigeon", "nats"])


def test_each_pair_is_of_ours_and_of_another() -> None:
    for name, (ours, theirs) in side.PAIRS.items():
        one, other = side.ALL_SIDES[ours], side.ALL_SIDES[theirs]
        assert one.peer.name == "famulus"
        assert (other.peer.name == "famulus") == (name in side.PLAIN_PAIRS)
        assert (one.window, one.size) == (other.window, other.size)


def test_who_has_keys_is_compared_with_who_has_them_too_or_with_ours_without() -> None:
    secure = {name: pair for name, pair in side.PAIRS.items() if name.startswith("secure_")}
    ratios = {"nats_1", "nats_request_64", "nats_request_1000", "nats_inbox_1000", "plain_1", "plain_1000"}
    assert secure.keys() == {f"secure_{name}" for name in ratios}
    for name, (one, other) in secure.items():
        assert {one, other} <= side.SECURE_SIDES.keys()
        assert one.startswith("secure_famulus")
        assert other.startswith("secure_nats") or name in side.PLAIN_PAIRS
    assert not any(name.startswith("secure_") for name in side.chosen([])), "they are measured when asked for"


# -- measuring --------------------------------------------------------------------------------------------------------


def test_an_order_arrives_as_it_was_given() -> None:
    order = Order("tcp://127.0.0.1:1", 64, 100, 0.5, "map", {"server": [1, 2], "worker": [3]})
    assert msgspec.json.decode(msgspec.json.encode(order), type=Order) == order


def test_only_the_stretch_between_the_instants_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, cpu_s = 0, 0

    def stamped(sent_s: int) -> bytes:
        return (sent_s * NS_PER_S).to_bytes(STAMP_BYTES, "big")

    monkeypatch.setattr(meter, "monotonic_ns", lambda: now_s * NS_PER_S)
    monkeypatch.setattr(meter, "process_time", lambda: 2.0 * cpu_s)
    monkeypatch.setattr(meter, "cpu_s", lambda pid: float(pid * cpu_s))
    clocked = Meter(10 * NS_PER_S, 20 * NS_PER_S, STAMP_BYTES, {"server": [3, 4]})
    for now_s in (1, 9, 12, 13, 14, 22, 23):
        cpu_s = now_s
        clocked.note(stamped(now_s - 1))
    report = clocked.report()
    assert (report["tasks"], report["seconds"], report["rate"]) == (3, 10.0, 0.3)
    assert report["p50"] == 1e6
    assert report["cpu_us_server"] == pytest.approx(70e6 / 3)
    assert report["cpu_us_client"] == pytest.approx(20e6 / 3)
    assert report["cpu_us_all"] == pytest.approx(90e6 / 3)


def test_a_stretch_may_end_with_no_answer_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0
    monkeypatch.setattr(meter, "monotonic_ns", lambda: now_s * NS_PER_S)
    clocked = Meter(10 * NS_PER_S, 20 * NS_PER_S, STAMP_BYTES, {})
    for now_s in (9, 12, 13, 19):
        clocked.note((now_s * NS_PER_S).to_bytes(STAMP_BYTES, "big"))
    now_s = 20
    report = clocked.report()
    assert (report["tasks"], report["seconds"]) == (3, 8.0)


def test_an_answer_of_another_size_is_no_echo() -> None:
    with pytest.raises(BenchFailed, match="no echo"):
        Meter(0, 1, 100, {}).note(bytes(99))


def test_silence_is_an_error_and_not_a_rate() -> None:
    with pytest.raises(BenchFailed, match="nothing came back"):
        Meter(0, 1, 100, {}).report()


# -- the command ------------------------------------------------------------------------------------------------------

app = typer.Typer()
app.command()(peers)


def test_an_unknown_name_is_the_users_mistake() -> None:
    done = CliRunner().invoke(app, ["--only", "carrier-pigeon"])
    assert done.exit_code == 2
    assert "carrier-pigeon" in done.stderr
