"""The shape that the laws of a model give: its stages compiled on one pool, with the workload that the log shows."""

from __future__ import annotations

from typing import Any

from rollplan.models.errors import InfeasibleError, InputError
from rollplan.models.hardware import Pool
from rollplan.models.split.given import Split
from rollplan.models.stages.compile import compiled
from rollplan.planner.advise.facts import Facts
from rollplan.planner.advise.present import Present
from rollplan.planner.advise.shape import LawShape

POOL = "gpus"
SIGMA = 0.7


def law_shape(seen: Present, facts: Facts, model: str, gpu: str) -> tuple[LawShape | None, str]:
    """Return the shape, or None and why the laws cannot be used."""
    per_node = min(facts.gpus_per_node, seen.total_gpus)
    nodes = -(-seen.total_gpus // per_node)
    split = _split(seen, facts, model)
    if isinstance(split, str):
        return None, split
    try:
        pool = Pool.build({"gpu": gpu, "gpus_per_node": per_node, "nodes": nodes, "price": "1 $/h", "memory": "2 TB"}, "advise")
        problem = compiled(Split.build({**split, "budget": {POOL: seen.total_gpus}}, "advise"), {POOL: pool}).problem
    except (InputError, InfeasibleError) as error:
        return None, f"the laws of {model} on {gpu} do not apply: {str(error).splitlines()[-1].strip()}"
    shape = LawShape(problem, POOL)
    for side, counts, now in (("rollout", shape.rollout_counts(), seen.gpus[0]), ("train", shape.train_counts(), seen.gpus[1])):
        if now not in counts:
            return None, f"by the memory bill of {model} no layout of {side} fits on the {now} GPUs that it ran on"
    return shape, ""


def _split(seen: Present, facts: Facts, model: str) -> dict[str, Any] | str:
    """Return the run as a scenario's split, or what is missing."""
    amounts = seen.amounts
    mean, longest = amounts.get("response_mean"), facts.response_limit or amounts.get("response_max")
    samples = amounts.get("samples") or _samples(amounts) or facts.samples_per_step
    if not mean or not longest or longest < mean or not samples:
        unknown = [text for text, known in (("samples per step", samples), ("lengths of responses", mean and longest)) if not known]
        return f"neither log nor configuration tells the {' and '.join(unknown) or 'limit of responses'}"
    return {
        "model": model,
        "workload": {
            "prompts": max(1, round(samples)),
            "prompt_tokens": max(0, round(amounts.get("prompt_mean", 512))),
            "lengths": {"mean": float(mean), "sigma": SIGMA, "limit": float(longest)},
        },
        "sync": f"{seen.sync_s!r} s",
        "trainer": {"old_logprob": "old_logprob" in seen.phases, "reference": "reference" in seen.phases},
    }


def _samples(amounts: Any) -> float | None:
    """Return samples per step from the tokens of the step and the mean lengths."""
    tokens, response, prompt = (amounts.get(name) for name in ("tokens", "response_mean", "prompt_mean"))
    return None if tokens is None or not response or prompt is None else tokens / (response + prompt)
