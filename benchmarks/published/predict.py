"""What rollplan predicts for one run: the run as a `split` of a scenario, compiled like any other.

Nothing is tuned per run. What a run does not state has the tool's default; lengths are lognormal with sigma 0.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from rollplan.models.errors import InfeasibleError
from rollplan.models.hardware import Pool
from rollplan.models.reference.architectures import architecture
from rollplan.models.split.candidates import colocated
from rollplan.models.split.given import Split
from rollplan.models.split.iteration import stages
from rollplan.models.split.problem import SplitProblem
from rollplan.models.stages.compile import Compiled, compiled

from .rows import GPUS, MODELS, Binding, Row, stated

SIGMA = 0.7
POOL = "gpus"
CHUNKS = 4
"""verl's streaming trains a step's samples in four portions (`require_batches` x `mini` of 512 prompts)."""

Constants = tuple[tuple[str, str, float | str], ...]
"""Settings that replace a default in every run: (section or "", key, value)."""


@dataclass(frozen=True, slots=True)
class Stages:
    """Seconds that are known of a stage, by number of GPUs; empty where the law alone decides."""

    rollout: Mapping[int, float]
    train: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds of one step. layouts: what was assumed of them."""

    rollout_s: float
    train_s: float
    step_s: float
    layouts: str

    @property
    def binds(self) -> Binding:
        """The side that takes longer."""
        return "rollout" if self.rollout_s >= self.train_s else "train"


LAW = Stages({}, {})


def predict(row: Row, known: Stages = LAW, settings: Constants = ()) -> Prediction:
    """Return the prediction of a row; raise `InfeasibleError` if no layout fits at exactly its GPU counts.

    known: measured stage times that the law is shifted through. Stated layouts are kept as far as a plan with them exists.
    """
    refused: InfeasibleError | None = None
    for engine, trainer in ((True, True), (True, False), (False, True), (False, False)):
        try:
            found = _compiled(row, engine, trainer, tuple(known.rollout.items()), tuple(known.train.items()), settings)
            rollout_s, train_s, step_s = _iteration(found, row)
        except InfeasibleError as error:
            refused = refused or error
            continue
        except KeyError:
            continue
        given = (row.gen_tp is not None, row.train_layout is not None)
        freed = [name for name, kept, has in zip(("engine", "trainer"), (engine, trainer), given, strict=True) if has and not kept]
        note = f"stated layout of {' and '.join(freed)} refused" if freed else "as stated" if any(given) else "chosen"
        return Prediction(rollout_s, train_s, step_s, note)
    raise refused or InfeasibleError([f"no layout fits at exactly the GPUs of {row}"])


def end_over_steady(row: Row, settings: Constants = ()) -> float:
    """Return the law's ratio of a rollout that runs to its end to one whose batches overlap, on a row's GPUs and layout."""
    found = _compiled(row, True, True, (), (), settings)
    return found.rollout[POOL][row.rollout_gpus].time.seconds / found.steady[POOL][row.rollout_gpus].time.steady_s


def problem_of(row: Row, known: Stages = LAW, settings: Constants = ()) -> SplitProblem:
    """Return the problem of a row's job on all of its GPUs, every split a candidate, with its stated layouts."""
    return _compiled(row, True, True, tuple(known.rollout.items()), tuple(known.train.items()), settings).problem


def moe(row: Row) -> bool:
    """Return whether a row's model is a mixture of experts."""
    return architecture(MODELS.get(row.model, row.model)).moe


def _iteration(found: Compiled, row: Row) -> tuple[float, float, float]:
    if row.way is None:
        plan = colocated(found.problem, POOL, row.total)
        return plan.rollout_s, plan.train_s, plan.iteration_s
    return stages(found.problem, row.way, (POOL, POOL), (row.rollout_gpus, row.train_gpus))


@cache
def _compiled(
    row: Row,
    engine: bool,
    trainer: bool,
    rollout: tuple[tuple[int, float], ...],
    train: tuple[tuple[int, float], ...],
    settings: Constants,
) -> Compiled:
    split = _split(row, engine, trainer)
    for stage, table in (("rollout", rollout), ("train", train)):
        if table:
            split[stage] = {POOL: {gpus: f"{seconds} s" for gpus, seconds in table}}
    for section, key, value in settings:
        (split[section] if section else split)[key] = value
    per_node = min(8, row.total)
    pool = {"gpu": GPUS.get(row.gpu, row.gpu), "gpus_per_node": per_node, "nodes": -(-max(row.total, 1) // per_node)}
    return compiled(Split.build(split, str(row)), {POOL: Pool.build({**pool, "price": "1 $/h", "memory": "2 TB"}, str(row))})


def _split(row: Row, engine: bool, trainer: bool) -> dict[str, Any]:
    """Return the split that describes a row; with the stated layout of engine and trainer, or leaving them open."""
    tp, cp, ep, pp = row.train_layout or (1, 1, 1, 1)
    degrees = {"tp": (tp,), "cp": (cp,), "ep": (ep,), "pp": (pp,)} if trainer and row.train_layout else {}
    passes = {"old_logprob": row.old_logprob_s is not None, "reference": row.ref_s is not None} if row.update_s is not None else {}
    return {
        "model": MODELS.get(row.model, row.model),
        "workload": {
            "prompts": int(stated(row.samples)),
            "prompt_tokens": row.prompt_tokens,
            "lengths": {"mean": stated(row.mean), "sigma": SIGMA, "limit": stated(row.limit)},
            "updates": row.updates,
        },
        "engine": {
            **({"tp": (row.gen_tp,)} if engine and row.gen_tp else {}),
            **({"gpu_memory_utilization": row.kv} if engine and row.kv else {}),
        },
        "trainer": {**degrees, **passes, **({"checkpointing": row.checkpointing} if row.checkpointing else {})},
        "staleness": row.staleness,
        "chunks": CHUNKS,
        **({"pipelining": (row.way,)} if row.way else {}),
    }
