"""A small job, a world in which it has other constants, and samples measured there."""

from __future__ import annotations

from typing import Any

from rollplan import Scenario
from rollplan.models.calibration.laws import Place
from rollplan.models.calibration.read import Source
from rollplan.models.calibration.samples import Samples
from rollplan.models.latency import TableLatency, ptl_ms
from rollplan.models.profile.calibration import Calibration, Number
from rollplan.models.reference.decode_latency import decode_latency
from rollplan.models.split.given import Split
from rollplan.models.stages.compile import compiled
from rollplan.models.strict import tuples
from rollplan.planner.calibrate import calibrate

POOLS = "h100: {gpu: H100, nodes: 2, price: 3 $/h, memory: 2 TB}"
WORKLOAD = "{prompts: 32, samples_per_prompt: 8, prompt_tokens: 256, lengths: {mean: 900, sigma: 0.7, limit: 4096}}"
DATE = "2026-07-01T00:00:00+00:00"


def scenario(split: str = "", pools: str = POOLS, workload: str = WORKLOAD, model: str = "Qwen3-8B") -> Scenario:
    """Return one job with a model, and more lines of its split."""
    job = f"  - name: grpo\n    split:\n      model: {model}\n      workload: {workload}\n      {split}\n"
    text = f"name: demo\npools: {{{pools}}}\njobs:\n{job}"
    return Scenario.from_yaml(text)


def source(data: dict[str, Any]) -> Source:
    """Return samples as a file of one's own has them."""
    return Source(Place("notes.yaml", "measured"), Samples.build(tuples(data), "notes.yaml"))


def calibrated(asked: Scenario, *sources: Source) -> Calibration:
    """Return the section of the profile."""
    found = calibrate(asked, sources, DATE).calibration
    assert found is not None
    return found


def numbers(found: Calibration) -> dict[str, Number]:
    """Return numbers by name."""
    return {number.name: number for number in found.numbers}


def truth(extra: dict[str, Any]) -> tuple[dict[int, float], dict[int, float]]:
    """Return seconds of rollout and of the update by GPUs, of a world with other constants: what a plan with them says."""
    split = scenario("trainer: {old_logprob: false, reference: false}").jobs[0].split
    assert split is not None
    given = split.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for section, keys in extra.items():
        given[section] = {**given.get(section, {}), **keys} if isinstance(keys, dict) else keys
    ready = compiled(Split.build(tuples(given), "truth"), scenario().pools)
    rollout = {gpus: option.time.seconds for gpus, option in ready.rollout["h100"].items()}
    return rollout, {gpus: option.seconds for gpus, option in ready.train["h100"].items()}


def step_ms(tp: int, batch: int, context: float, scale: float, overhead_ms: float) -> float:
    """Return a decode step of the shipped reference, calibrated."""
    known = decode_latency("Qwen3-8B", "H100", tp)
    assert known is not None
    return ptl_ms(TableLatency(known.batches, known.contexts, known.ptl_ms).calibrated(scale, overhead_ms), batch, batch * context)


def steps(points: list[tuple[int, int, int]], scale: float, overhead_ms: float) -> list[dict[str, Any]]:
    """Return decode samples of (tp, batch, context)."""
    return [{"tp": tp, "batch": b, "context": c, "ms": step_ms(tp, b, c, scale, overhead_ms)} for tp, b, c in points]


APART = [(1, 1, 1024), (1, 32, 2048), (1, 64, 8192), (1, 128, 4096), (2, 64, 4096), (2, 8, 1024)]
