"""`rollplan profile lengths` and what `rollplan dispatch` makes of its ranker, from the outside."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rollplan import Scenario
from rollplan.models.profile.file import Profile
from rollplan.models.profile.lengths import GroupCorrelation, LengthDrift, LengthsProfile, Ranker, RankerWeights, Recall, Tail

SCENARIO = """\
name: batch
pools: {h100: {gpu: H100, nodes: 1, price: 3 $/h, memory: 1 TB}}
jobs:
  - name: grpo
    split:
      model: Qwen3-0.6B
      WORKLOAD
      engine: {tp: [1], max_num_seqs: 8}
"""
Cli = Callable[..., Any]


@pytest.fixture
def rollouts(folder: Path) -> Path:
    """A folder of six steps; lengths depend on the prompt, and grow by 8 % per step."""
    return dumped(folder / "rollouts", told=0.5)


def dumped(place: Path, told: float) -> Path:
    rng = np.random.default_rng(1)
    place.mkdir()
    for step in range(1, 7):
        rows = []
        for number in range(40):
            hard = int(rng.integers(0, 6))
            prompt = f"task {step * 40 + number}: {'prove ' * hard}{'list ' * (5 - hard)}"
            for tokens in 300 * 1.08**step * np.exp(told * hard + 0.4 * rng.standard_normal(4)):
                rows.append(json.dumps({"input": prompt, "output": "so", "step": step, "response_length": min(8192, int(tokens))}))
        (place / f"{step}.jsonl").write_text("\n".join(rows))
    return place


def scenario(place: Path, workload: str) -> Path:
    place.write_text(SCENARIO.replace("WORKLOAD", workload))
    return place


def test_the_line_to_paste_is_a_workload_and_the_ranker_dispatches(cli: Cli, folder: Path, rollouts: Path) -> None:
    """From the dump of a run to the dispatch of the next one, by what the screens say."""
    done = cli("profile", "lengths", rollouts, "--ranker", "light", "--limit", 8192, "-o", "p.json")
    assert (done.code, done.err) == (0, "profile written to p.json; next: `lengths: {file: p.json}` in a workload\n")
    assert "960 responses to 240 prompts in 6 steps, in tokens" in done.out
    (line,) = re.findall(r"paste +(workload: .*})", done.out)
    pasted = line.replace("workload: {", "workload: {prompts: 16, samples_per_prompt: 4, ")
    loaded = Scenario.load(scenario(folder / "s.yaml", pasted)).jobs[0].split
    section = Profile.load(folder / "p.json").lengths
    assert section is not None
    assert loaded is not None
    assert loaded.workload is not None
    assert loaded.workload.lengths.law() == section.law()
    assert loaded.workload.group_correlation == pytest.approx(section.group_correlation.value, abs=0.005)
    dispatched = cli("dispatch", "s.yaml", "--ranker", "p.json", "--json")
    assert json.loads(dispatched.out)["recall"] == section.ranker.at(0.2).recall > 0.4
    assert dispatched.err.startswith("ranker: recall 0.")


def test_a_ranker_that_is_no_better_than_chance_is_never_used(cli: Cli, folder: Path) -> None:
    """The profile says so; dispatch goes on without it, says so, and no estimates are written."""
    done = cli("profile", "lengths", dumped(folder / "blind", told=0.0), "--ranker", "light", "-o", "p.json")
    assert "no better than chance" in done.out
    assert "--ranker" not in done.out
    scenario(folder / "s.yaml", "workload: {prompts: 16, lengths: {file: p.json}}")
    dispatched = cli("dispatch", "s.yaml", "--ranker", "p.json", "--json")
    found = json.loads(dispatched.out)
    assert (found["recall"], [method["name"] for method in found["methods"]]) == (None, ["even"])
    assert "is no better than chance; dispatched without it" in dispatched.err
    (folder / "new.csv").write_text("prompt\nhello\n")
    refused = cli("profile", "lengths", "p.json", "--prompts", "new.csv", "--estimates", "e.csv")
    assert (refused.code, (folder / "e.csv").exists()) == (2, False)
    assert "is no better than chance; dispatch without one" in refused.err


def test_estimates_come_from_a_stored_ranker_in_the_order_of_the_prompts(cli: Cli, folder: Path, rollouts: Path) -> None:
    cli("profile", "lengths", rollouts, "--ranker", "light", "-o", "p.json")
    (folder / "new.jsonl").write_text(
        '{"prompt": "task 1: prove prove prove prove prove"}\n{"prompt": "task 2: list list list list list"}\n'
    )
    assert cli("profile", "lengths", "p.json", "--prompts", "new.jsonl", "--estimates", "e.csv").code == 0
    head, *rows = (folder / "e.csv").read_text().splitlines()
    assert head == "row,estimated_tokens"
    long, short = (float(row.split(",")[1]) for row in rows)
    assert long > 2 * short
    (folder / "p.json").write_text((folder / "p.json").read_text().replace('"commas"', '"colons"'))
    refused = cli("profile", "lengths", "p.json", "--prompts", "new.jsonl", "--estimates", "e.csv")
    assert refused.code == 2
    assert "ranker.weights.surface = `colons`: is no feature that this version of rollplan knows" in refused.err


def test_json_is_the_profile(cli: Cli, folder: Path, rollouts: Path) -> None:
    done = cli("profile", "lengths", rollouts, "--json")
    assert Profile.build(_tuples(json.loads(done.out)), "stdout").lengths is not None


def _tuples(raw: Any) -> Any:
    from rollplan.models.strict import tuples

    return tuples(raw)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["none.csv"], "does not exist"),
        (["a.csv"], "has no number of tokens"),
        (["a.csv", "--unit", "words", "--text", "said", "--column", "said"], "stands beside --column"),
        (["a.csv", "--text", "said"], "has no tokens without its tokenizer"),
        (["a.csv", "--unit", "words", "--text", "said", "--ranker", "light"], "has no prompts"),
        (["a.csv", "--prompts", "a.csv"], "--prompts: stands without --estimates"),
        (["a.csv", "--unit", "words", "--text", "said", "-o", "a.csv"], "exists and is not a profile"),
        (["b.json"], "is neither CSV nor JSON lines"),
    ],
)
def test_wrong_use_is_refused_with_exit_code_2(cli: Cli, folder: Path, options: list[str], message: str) -> None:
    (folder / "a.csv").write_text("said\nso it is\n")
    (folder / "b.json").write_text("{}")
    done = cli("profile", "lengths", *options)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_options_that_have_no_effect_are_refused(cli: Cli, folder: Path, rollouts: Path) -> None:
    cli("profile", "lengths", rollouts, "-o", "p.json")
    done = cli("profile", "lengths", "p.json", "--limit", 100, "--ranker", "light")
    assert (done.code, done.err.count("has no effect on a profile")) == (2, 2)
    scenario(folder / "s.yaml", "workload: {prompts: 16, lengths: {file: p.json}}")
    both = cli("dispatch", "s.yaml", "--ranker", "p.json", "--recall", 0.5)
    assert (both.code, "stands beside --ranker" in both.err) == (2, True)
    assert "the profile holds no ranker" in cli("dispatch", "s.yaml", "--ranker", "p.json").err


def test_every_key_and_option_stands_in_the_page() -> None:
    """A key that nobody can look up is guessed."""
    from typer.main import get_command

    from rollplan.cli.main import app

    page = (Path(__file__).parents[3] / "docs" / "lengths.md").read_text()
    command: Any = get_command(app)
    options = {
        option for parameter in command.commands["profile"].commands["lengths"].params for option in parameter.opts if "--" in option
    }
    models = (LengthsProfile, Tail, LengthDrift, GroupCorrelation, Recall, Ranker, RankerWeights)
    keys = {name for model in models for name in model.model_fields}
    assert [name for name in sorted(options | keys) if f"`{name}" not in page] == []
