"""The transport in virtual time: the same every time, and what it keeps to."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from limen.bench.link.profile import ProfileError, load_profile
from limen.bench.virtual.scenario import (
    Scenario,
    recoveries,
    run_scenario,
    scenario_for,
)


def test_a_seed_gives_the_same_run_bit_for_bit_and_another_does_not() -> None:
    short = Scenario(4.0)
    first, again = (run_scenario("rfc8867-5.1", short, seed=1) for _ in range(2))
    other = run_scenario("rfc8867-5.1", short, seed=2)
    assert first["fingerprint"] == again["fingerprint"]
    assert first["flows"] == again["flows"]
    assert first["fingerprint"] != other["fingerprint"]


def test_a_voice_beside_a_greedy_picture_stays_near_the_floor() -> None:
    result = run_scenario("tight", Scenario(8.0))
    [flow] = result["flows"]
    assert flow["vital_n"] == 350
    assert flow["vital_on_time"] == 1.0
    assert flow["vital_p95_ms"] < 75.0  # the floor is 37 ms
    assert result["utilization"] > 0.75
    assert result["queue_p95_ms"] < 40.0


@pytest.mark.parametrize("congestion", ["delay", "scream"])
def test_two_equal_flows_both_live(congestion: str) -> None:
    result = run_scenario("dsl", Scenario(10.0, (0.0, 0.0)), congestion=congestion)
    rates = [flow["rate_bps"] for flow in result["flows"]]
    assert min(rates) > 0.3 * max(rates)
    assert all(flow["vital_on_time"] >= 0.99 for flow in result["flows"])


def test_recovery_is_counted_from_each_step_down() -> None:
    profile = load_profile("rfc8867-5.1", duration=100.0)
    assert [at for at, _ in profile.down.rate_steps(until=100.0)] == [0.0, 40.0, 60.0, 80.0]
    queue = [[60.2, 250.0], [60.7, 120.0], [60.9, 99.0], [70.0, 20.0]]
    assert recoveries(profile, queue, 100.0) == [0.7]
    assert recoveries(profile, [], 100.0) == [0.0]
    assert recoveries(profile, [[79.9, 300.0]], 100.0) == [None]


def test_the_rfc_names_flows_starts_and_pauses() -> None:
    assert scenario_for("rfc8867-5.5").starts == (0.0, 10.0, 20.0, 30.0, 40.0)
    assert scenario_for("rfc8867-5.1-queue20").seconds == 100.0
    with pytest.raises(ProfileError, match="both ways"):
        scenario_for("rfc8867-5.3")
    assert scenario_for("tight", seconds=5.0, flows=3) == Scenario(5.0, (0.0,) * 3)


def test_the_command_prints_a_table_and_refuses_what_is_not_there() -> None:
    from limen.cli.bench import app

    done = CliRunner().invoke(app, ["virtual", "tight", "--seconds", "3"])
    assert done.exit_code == 0, done.output
    assert "voice p50" in done.stdout
    assert "tight" in done.stdout
    assert CliRunner().invoke(app, ["virtual", "nowhere"]).exit_code != 0
