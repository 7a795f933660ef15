"""From a scenario's `split` to the problem that is solved, with the layouts and origins behind its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rollplan.models.architecture import Architecture
from rollplan.models.errors import InfeasibleError
from rollplan.models.hardware import Link, Pool
from rollplan.models.lengths.sampling import stratified
from rollplan.models.memory.bill import bill
from rollplan.models.memory.explain import explain
from rollplan.models.memory.fitting import smallest_change
from rollplan.models.overheads import ROLLOUT_SWITCH_S, TRAIN_SWITCH_S, Provenance, look_up, point_to_point_s
from rollplan.models.recipe import Workload
from rollplan.models.reference.gpus import gpu
from rollplan.models.reference.sync import weight_sync_seconds
from rollplan.models.split.given import Pools, Split, budgets
from rollplan.models.split.problem import SplitProblem, Tables
from rollplan.models.stages.anchor import anchored, factors
from rollplan.models.stages.engines import calibration, instances
from rollplan.models.stages.options import RolloutOption, colocated_options, counts, rollout_options
from rollplan.models.stages.trainer import Site, Trainer, TrainOption
from rollplan.models.stages.work import Work

Links = Sequence[Link]


@dataclass(frozen=True, slots=True)
class Compiled:
    """The problem of one split, and what its tables stand for; options are empty for splits from tables.

    rollout, steady, train, colocated: the option behind each count of each pool. provenance: how many of the inputs are
    of which origin. notes: what a reader must know of them. limits: rules by which numbers of GPUs were left out.
    """

    problem: SplitProblem
    rollout: Mapping[str, Mapping[int, RolloutOption]] = field(default_factory=dict)
    steady: Mapping[str, Mapping[int, RolloutOption]] = field(default_factory=dict)
    train: Mapping[str, Mapping[int, TrainOption]] = field(default_factory=dict)
    colocated: Mapping[str, Mapping[int, tuple[RolloutOption, TrainOption]]] = field(default_factory=dict)
    trainers: Mapping[str, Trainer] = field(default_factory=dict)
    provenance: Mapping[Provenance, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()


def compiled(split: Split, pools: Pools, links: Links = ()) -> Compiled:
    """Return the problem of a split; raise `InfeasibleError` with reasons when no layout of any count works for a stage."""
    if split.model is None or split.workload is None:
        return Compiled(_problem(split, pools, links, split.rollout, split.train))
    return _Derivation(split, split.model, split.workload, pools, links).compiled()


def work_of(workload: Workload) -> Work:
    """Return one typical iteration: evenly spread quantiles of the law of lengths."""
    outputs = stratified(workload.law(), workload.samples)
    return Work(outputs, workload.prompt_tokens, workload.samples_per_prompt, workload.updates)


def _problem(split: Split, pools: Pools, links: Links, rollout: Tables, train: Tables, **derived: Any) -> SplitProblem:
    return SplitProblem(
        budgets=budgets(split, pools),
        rollout=rollout,
        train=train,
        price_per_gpu_h={name: pool.price_per_gpu_h for name, pool in pools.items()},
        gpus_per_node={name: pool.gpus_per_node for name, pool in pools.items()},
        sync_s=_sync_s(split),
        sync_between=_sync_between(split, pools, links),
        switch_s=_switch_s(split),
        trim=split.trim,
        pipelining=split.ways,
        objective=split.objective,
        chunks=split.chunks,
        chunk_s=split.chunk_s,
        interference=(split.interference.rollout, split.interference.train),
        **derived,
    )


def _sync_s(split: Split) -> float:
    if split.sync_s is not None:
        return split.sync_s
    return 0.0 if split.model is None else weight_sync_seconds(split.model.params_b).value


def _sync_between(split: Split, pools: Pools, links: Links) -> dict[tuple[str, str], float]:
    """Return the seconds over links: one copy of the bf16 weights, one stream for each GPU of a node."""
    if split.sync_s is not None or split.model is None:
        return {}
    weights_gb = 2 * split.model.params_b
    return {
        (link.target, link.source): point_to_point_s(weights_gb, pools[link.source].gpus_per_node, link.bandwidth_gb_s) for link in links
    }


def _switch_s(split: Split) -> float:
    if split.switch_s is not None or split.model is None:
        return split.switch_s or 0.0
    sizes = (max(min(split.model.params_b, max(table)), min(table)) for table in (ROLLOUT_SWITCH_S, TRAIN_SWITCH_S))
    found = [look_up(table, size) for table, size in zip((ROLLOUT_SWITCH_S, TRAIN_SWITCH_S), sizes, strict=True)]
    return sum(looked.value for looked in found if looked is not None)


class _Derivation:
    """Stage times of a model and a workload, pool by pool."""

    def __init__(self, split: Split, model: Architecture, workload: Workload, pools: Pools, links: Links) -> None:
        self.split, self.model, self.workload, self.pools, self.links = split, model, workload, pools, links
        self.work = work_of(workload)
        self.origins: Counter[Provenance] = Counter()
        self.notes: dict[str, None] = {}
        self.reasons: dict[str, list[str]] = {"rollout": [], "training": []}
        self.rollout: dict[str, dict[int, RolloutOption]] = {}
        self.steady: dict[str, dict[int, RolloutOption]] = {}
        self.train: dict[str, dict[int, TrainOption]] = {}
        self.colocated: dict[str, dict[int, tuple[RolloutOption, TrainOption]]] = {}
        self.trainers: dict[str, Trainer] = {}

    def compiled(self) -> Compiled:
        """Return problem and options."""
        for name, budget in budgets(self.split, self.pools).items():
            self._pool(name, self.pools[name], budget)
        stages = (("rollout", self.rollout, self.split.rollout), ("training", self.train, self.split.train))
        missing = [stage for stage, options, measured in stages if not options and not measured]
        if missing and not self.colocated:
            reasons = (reason for stage in missing for reason in self.reasons[stage])
            raise InfeasibleError(
                [f"{' and '.join(missing)} fit on no number of GPUs within the budget", *reasons, *self._remedies(missing)]
            )
        measured_rollout, measured_train = self.split.rollout, self.split.train
        law = {name: {gpus: option.time.seconds for gpus, option in table.items()} for name, table in self.rollout.items()}
        train = {name: {gpus: option.seconds for gpus, option in table.items()} for name, table in self.train.items()}
        shift = {name: factors(table, measured_rollout.get(name, {}), sorted(table)) for name, table in law.items()}
        problem = _problem(
            self.split,
            self.pools,
            self.links,
            {name: anchored(law.get(name, {}), measured_rollout.get(name, {})) for name in {**law, **measured_rollout}},
            {name: anchored(train.get(name, {}), measured_train.get(name, {})) for name in {**train, **measured_train}},
            steady={
                name: {gpus: option.time.steady_s * shift[name][gpus] for gpus, option in table.items()}
                for name, table in self.steady.items()
            },
            finish={
                name: {gpus: tuple(share * shift[name][gpus] for share in option.time.finish) for gpus, option in table.items()}
                for name, table in self.rollout.items()
            },
            colocated={name: self._in_turn(name, shift[name], train.get(name)) for name in self.colocated},
        )
        return Compiled(
            problem,
            self.rollout,
            self.steady,
            self.train,
            self.colocated,
            self.trainers,
            {origin: count for origin, count in sorted((self.origins + Counter(self._given())).items()) if count},
            tuple(self.notes),
            tuple(
                f"training on {name}: {trainer.reasons['batch'].removeprefix('training: ')}"
                for name, trainer in self.trainers.items()
                if "batch" in trainer.reasons
            ),
        )

    def _in_turn(self, name: str, shift: Mapping[int, float], train: Mapping[int, float] | None) -> dict[int, tuple[float, float]]:
        """Return seconds of stages that take turns; training that fits in turn only is measured against its own law."""
        table = self.colocated[name]
        law = train or {gpus: training.seconds for gpus, (_, training) in table.items()}
        shift_train = factors(law, self.split.train.get(name, {}), sorted(table))
        return {
            gpus: (rollout.time.seconds * shift[gpus], training.seconds * shift_train[gpus]) for gpus, (rollout, training) in table.items()
        }

    def _pool(self, name: str, pool: Pool, budget: int) -> None:
        kind = gpu(pool.gpu)
        site = Site(kind, pool.gpus_per_node, pool.memory_gib, counts(budget, pool.gpus_per_node))
        if pool.role in ("rollout", "any"):
            found, reasons = instances(
                self.model, kind, pool.gpus_per_node, self.workload, self.split.engine, calibration(self.model, self.split.engine)
            )
            self.reasons["rollout"] += [f"pool {name}: {reason}" for reason in reasons]
            alone, steady = rollout_options(self.work, found, site, self.split.engine.dispatch, self.split.staleness)
            if alone:
                self.rollout[name], self.steady[name] = alone, steady
                origin = found[0]
                self.origins[origin.provenance] += 1
                if origin.provenance == "estimated":
                    self.notes[f"rollout on {kind.name}: {origin.note}"] = None
        if pool.role in ("train", "any"):
            trainer = Trainer(self.model, site, self.work, self.workload, self.split.trainer)
            options = trainer.options()
            self.reasons["training"] += [f"pool {name}: {reason}" for reason in trainer.reasons.values()]
            self.trainers[name] = trainer
            self.origins[trainer.provenance] += 1
            if options:
                self.train[name] = options
            if name in self.rollout and (shared := colocated_options(trainer, self.rollout[name])):
                self.colocated[name] = shared
        unused = {"rollout": "train", "training": "rollout"}
        for stage, role in unused.items():
            if pool.role == role:
                self.reasons[stage].append(f"pool {name}: has the role {role}")

    def _remedies(self, missing: Sequence[str]) -> list[str]:
        """Return where the memory goes and the smallest changes that let training fit, for each pool where it does not."""
        found = []
        for name, trainer in self.trainers.items() if "training" in missing else ():
            if name not in self.train and (layout := trainer.largest()) is not None:
                setup = trainer.setup(layout)
                if bill(setup, trainer.site.gpu).fits:
                    continue
                found.append(f"pool {name}: {explain(setup, trainer.site.gpu)}")
                with suppress(InfeasibleError):
                    options = " or with ".join(map(str, smallest_change(setup, trainer.site.gpu)[:3]))
                    found.append(f"pool {name}: training as {layout} would fit with {options}")
        return [_in_scenario_words(text) for text in found]

    def _given(self) -> dict[Provenance, int]:
        """Return the origins of the other inputs: measured stage times, sync, switch."""
        tables = sum(len(table) for tables in (self.split.rollout, self.split.train) for table in tables.values())
        stated = (self.split.sync_s is not None) + (self.split.switch_s is not None)
        return {"imported": tables + stated, "reference": 2 - stated}


def _in_scenario_words(text: str) -> str:
    """Return a text of the memory bill with the names under which a scenario has the fields."""
    for term, key in (("update.sequences", "trainer.micro_batch"), ("log_prob.sequences", "trainer.log_prob_batch")):
        text = text.replace(term, key)
    return text
