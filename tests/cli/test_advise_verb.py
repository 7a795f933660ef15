"""`rollplan advise`: from files to the screen, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]
EXAMPLE = Path(__file__).parents[2] / "examples" / "advise"
LOG, LAUNCH = EXAMPLE / "fully_async.log", EXAMPLE / "launch.sh"


def test_log_and_configuration_are_enough(cli: Call) -> None:
    """GPUs, units and staleness from the script, changes in its own words."""
    done = cli("advise", LOG, "--config", LAUNCH, "--gpu", "H20")
    assert (done.code, done.err) == (0, "")
    for says in (
        "16 rollout + 16 training GPUs",
        "rollout binds",
        "$ of it idle",
        "rollout.nnodes=3",
        "limited: training GPUs in units of 4",
    ):
        assert says in done.out


def test_json_says_the_same(cli: Call) -> None:
    """Machines get the numbers behind the screen."""
    done = cli("advise", LOG, "--config", LAUNCH, "--price", "2 $/h", "--json")
    data = json.loads(done.out)
    assert data["binds"] == "rollout"
    assert data["better"]["gpus"] == [24, 8]
    assert data["per_month"] == pytest.approx(32 * 2 * 730)
    assert data["idle_per_month"] == pytest.approx(data["per_month"] * data["present"]["idle"][1]["likely"] / 2)
    assert data["run"]["framework"] == "verl"
    assert (data["run"]["steps"], data["present"]["step"]["repeats"]) == (23, 23)
    assert [change["saves"] for change in data["settings"]] == sorted((change["saves"] for change in data["settings"]), reverse=True)


def test_a_profile_of_the_log_gives_the_same_advice(cli: Call, folder: Path) -> None:
    """Import once, ask often."""
    assert cli("profile", "import", LOG, "-o", "run.json").code == 0
    options = ("--rollout-gpus", 16, "--train-gpus", 16, "--staleness", 0.5, "--json")
    direct, stored = (json.loads(cli("advise", source, *options).out) for source in (LOG, "run.json"))
    assert direct == stored


def test_options_win_over_the_configuration(cli: Call) -> None:
    """The owner knows best."""
    data = json.loads(cli("advise", LOG, "--config", LAUNCH, "--rollout-gpus", 20, "--train-gpus", 12, "--json").out)
    assert data["present"]["gpus"] == [20, 12]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((LOG,), "does not say how many GPUs roll out and how many train (32 in all); give --rollout-gpus and --train-gpus"),
        ((LOG, "--config", LAUNCH, "--run", 2), "run = `2`: holds 1 run that can be used"),
        ((LOG, "--config", LAUNCH, "--price", "2"), "--price = `2`: has no unit"),
        ((LOG, "--config", LAUNCH, "--gpu", "H1000"), "H1000"),
        ((LOG, "--config", LAUNCH, "--model", "Qwen99"), "Qwen99"),
        ((LOG, "--config", LOG), "fully_async.log"),
        ((LAUNCH,), "launch.sh"),
        (("absent.log",), "absent.log"),
    ],
)
def test_what_is_missing_or_wrong_is_named(cli: Call, arguments: tuple[object, ...], says: str) -> None:
    """With exit code 2 and no traceback."""
    done = cli("advise", *arguments)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert "Traceback" not in done.err


def test_the_configuration_of_another_framework_is_refused(cli: Call, folder: Path) -> None:
    """Its counts would be believed."""
    (folder / "slime.sh").write_text("python3 train_async.py --actor-num-nodes 2 --actor-num-gpus-per-node 8 --rollout-num-gpus 16\n")
    done = cli("advise", LOG, "--config", "slime.sh")
    assert done.code == 2
    assert "is of slime, but the log is of verl" in done.err
