"""Wrong splits with a model and a workload: each is refused with the field, the value and the way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

CASES = yaml.safe_load(Path(__file__).with_name("malformed_split.yaml").read_text())

SCENARIO = """\
name: deep
pools:
  h100: {gpu: H100, nodes: 2, price: 3.2 $/h, memory: 2 TB}
  h20: {gpu: H20, role: rollout, nodes: 2, price: 1.85 $/h, memory: 2 TB}
links:
  - {from: h100, to: h20, bandwidth: 20 Gbps}
jobs:
  - name: grpo
    split:
      budget: {h100: 8, h20: 16}
      model: Qwen3-8B
      workload: {prompts: 64, samples_per_prompt: 16, prompt_tokens: 512, updates: 4, lengths: {mean: 3000, sigma: 0.8, limit: 16384}}
      engine: {tp: [1, 2], gpu_memory_utilization: 0.9, dispatch: lpt}
      trainer: {sharding: zero3, micro_batch: 2, mfu: 0.35}
      rollout: {h100: {4: 400 s}}
      pipelining: [mini-batch, one-step]
      staleness: 1
      objective: time
      target: 5 min
      noise: 0.05
"""


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_a_wrong_split_is_refused_with_field_value_and_remedy(cli: Callable[..., Any], folder: Path, case: dict[str, Any]) -> None:
    """One change of a good scenario; the cases stand in malformed_split.yaml."""
    assert SCENARIO.count(case["old"]) == 1
    (folder / "scenario.yaml").write_text(SCENARIO.replace(case["old"], case["new"]))
    outcome = cli("plan", "scenario.yaml", "-o", "plan.json")
    assert "Traceback" not in outcome.err
    assert (outcome.code, outcome.out) == (case.get("code", 2), "")
    assert any(case["says"] in line for line in outcome.err.splitlines()), outcome.err
    assert [path.name for path in folder.iterdir()] == ["scenario.yaml"]


def test_the_scenario_that_the_cases_change_is_good(cli: Callable[..., Any], folder: Path) -> None:
    """Otherwise the cases would prove nothing."""
    (folder / "scenario.yaml").write_text(SCENARIO)
    assert cli("plan", "scenario.yaml", "-o", "plan.json").code == 0
    assert cli("check", "scenario.yaml", "plan.json").code == 0
