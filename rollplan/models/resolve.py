"""From a scenario's words to numbers: defaults, profiles and reference measurements filled in, each with its origin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from rollplan.models.colocation.problem import ColocationProblem, JobData, NodePool
from rollplan.models.consistency import pools_for
from rollplan.models.errors import Finding, InfeasibleError, InputError
from rollplan.models.hardware import Role
from rollplan.models.lengths import REFERENCE_LENGTHS
from rollplan.models.overheads import (
    GB_PER_GIB,
    ROLLOUT_MEMORY_GB,
    ROLLOUT_SWITCH_S,
    TRAIN_MEMORY_GB,
    TRAIN_SWITCH_S,
    Looked,
    Provenance,
    look_up,
    sync_time,
)
from rollplan.models.phase_times import PhaseTimes
from rollplan.models.scenario import Scenario
from rollplan.models.split.given import budgets
from rollplan.models.stages.phases import derived_phase
from rollplan.models.workload import Duration, Job, Phase


@dataclass(frozen=True, slots=True)
class JobTimes:
    """Seconds that one job's phases keep their nodes busy, once per iteration; `solo_s` is an iteration alone.

    Rollout nodes: switch + rollout. Training nodes: switch + training + sync (the side named by `sync_holds`).
    """

    rollout_s: float
    train_s: float

    @property
    def solo_s(self) -> float:
        """One iteration with all nodes to itself."""
        return self.rollout_s + self.train_s


@dataclass(frozen=True, slots=True)
class ResolvedJob:
    """A co-location job with every number filled in."""

    name: str
    slo: float
    rollout_pool: str
    train_pool: str
    rollout_nodes: int
    train_nodes: int
    rollout_memory_gib: float
    train_memory_gib: float
    gang: bool
    sync_s: float
    rollout_switch_s: float
    train_switch_s: float
    worst: JobTimes
    expected: JobTimes
    expected_known: bool


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the planner works on: jobs with numbers, the origins of the numbers, and what to warn of."""

    jobs: tuple[ResolvedJob, ...]
    provenance: dict[str, int]
    warnings: tuple[str, ...]

    def problem(self, scenario: Scenario) -> ColocationProblem:
        """Return the co-location problem in indices."""
        names = list(scenario.pools)
        pools = tuple(
            NodePool(
                name=name,
                price_per_node_h=pool.price_per_node_h,
                memory_gib=pool.memory_gib,
                nodes=None if pool.nodes is None else pool.nodes - reserved_nodes(scenario, name),
            )
            for name, pool in scenario.pools.items()
        )
        jobs = tuple(
            JobData(
                name=job.name,
                slo=job.slo,
                rollout_pool=names.index(job.rollout_pool),
                train_pool=names.index(job.train_pool),
                rollout_nodes=job.rollout_nodes,
                train_nodes=job.train_nodes,
                rollout_s=job.worst.rollout_s,
                train_s=job.worst.train_s,
                rollout_memory_gib=job.rollout_memory_gib,
                train_memory_gib=job.train_memory_gib,
                gang=job.gang,
            )
            for job in self.jobs
        )
        return ColocationProblem(pools, jobs, scenario.max_group_size, scenario.max_rate)


def reserved_nodes(scenario: Scenario, pool: str) -> int:
    """Return the nodes of a pool set aside for jobs that ask for a split: their budgets, in whole nodes."""
    size = scenario.pools[pool].gpus_per_node
    return sum(-(-budgets(job.split, scenario.pools).get(pool, 0) // size) for job in scenario.jobs if job.split is not None)


def resolve(scenario: Scenario) -> Resolved:
    """Fill in every absent number of the co-location jobs; raise `InputError` where nothing can stand for it."""
    resolver = _Resolver(scenario)
    jobs = tuple(resolver.job(index, job) for index, job in enumerate(scenario.jobs) if job.split is None)
    if resolver.faults:
        raise InputError(scenario.name, resolver.faults)
    return Resolved(jobs, dict(sorted(resolver.origins.items())), tuple(resolver.warnings()))


class _Resolver:
    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.faults: list[Finding] = []
        self.origins: Counter[Provenance] = Counter()
        self.without_overheads: list[str] = []
        self.one_value: list[str] = []

    def job(self, index: int, job: Job) -> ResolvedJob:
        path = f"jobs[{index}]"
        rollout, train = self._phase("rollout", job), self._phase("train", job)
        worst_r, expected_r = self._times(path, "rollout", job, rollout)
        worst_t, expected_t = self._times(path, "train", job, train)
        known = not (expected_r is None or expected_t is None)
        if not known and job.lengths is not None:
            law = REFERENCE_LENGTHS[job.lengths]
            # The longest response ends the rollout; training is linear in tokens (RollMux 4.2).
            if expected_r is None:
                expected_r = worst_r * law.mean_longest(job.responses) / law.limit_tokens
                self.origins["estimated"] += 1
            if expected_t is None:
                expected_t = worst_t * law.mean() / law.limit_tokens
                self.origins["estimated"] += 1
            known = True
        if not known:
            self.one_value.append(job.name)
        switch_r = self._overhead(rollout.switch_s, job, look_up(ROLLOUT_SWITCH_S, job.size_or_model_b or 0))
        switch_t = self._overhead(train.switch_s, job, look_up(TRAIN_SWITCH_S, job.size_or_model_b or 0))
        sync = self._overhead(job.sync_s, job, self._sync(job, rollout, train))
        sync_t, sync_r = (sync, 0.0) if self.scenario.sync_holds == "train" else (0.0, sync)
        return ResolvedJob(
            name=job.name,
            slo=job.slo,
            rollout_pool=rollout.pool or "",
            train_pool=train.pool or "",
            rollout_nodes=rollout.nodes,
            train_nodes=train.nodes,
            rollout_memory_gib=self._memory(rollout, job, ROLLOUT_MEMORY_GB),
            train_memory_gib=self._memory(train, job, TRAIN_MEMORY_GB),
            gang=job.gang and rollout.nodes > 1,
            sync_s=sync,
            rollout_switch_s=switch_r,
            train_switch_s=switch_t,
            worst=JobTimes(switch_r + worst_r + sync_r, switch_t + worst_t + sync_t),
            expected=JobTimes(
                switch_r + (worst_r if expected_r is None else expected_r) + sync_r,
                switch_t + (worst_t if expected_t is None else expected_t) + sync_t,
            ),
            expected_known=known,
        )

    def _phase(self, role: Role, job: Job) -> Phase:
        given: Phase | None = job.rollout if role == "rollout" else job.train
        phase = given or Phase.model_construct()
        return phase if phase.pool is not None else phase.model_copy(update={"pool": pools_for(role, self.scenario.pools)[0]})

    def _times(self, path: str, role: Role, job: Job, phase: Phase) -> tuple[float, float | None]:
        """Return (worst, expected) seconds of a phase, its own or its profile's."""
        duration = phase.time
        if duration is None and job.profile is not None:
            duration = self._from_profile(path, role, job, phase)
        elif duration is None:
            return self._derived(path, role, job, phase)
        elif duration.worst_s is not None:
            self.origins["imported"] += 1
        return duration.worst_s or 0.0, duration.expected_s

    def _from_profile(self, path: str, role: Role, job: Job, phase: Phase) -> Duration:
        profile: PhaseTimes = self.scenario.profiles[job.profile or ""]
        table = profile.rollout if role == "rollout" else profile.train
        gpus = phase.nodes * self.scenario.pools[phase.pool or ""].gpus_per_node
        duration = table.get(gpus)
        if duration is None or duration.worst_s is None:
            counts = sorted(count for count, entry in table.items() if entry.worst_s is not None)
            self.faults.append(
                Finding(
                    f"{path}.{role}",
                    "",
                    f"needs the worst-case time on {gpus} GPUs, which profile `{job.profile}` does not have",
                    f"measure it, or choose `nodes` for one of its GPU counts: {', '.join(map(str, counts)) or 'none'}",
                )
            )
            return Duration.model_construct(worst_s=1.0, expected_s=1.0)
        self.origins[profile.provenance.kind] += 1
        return duration

    def _derived(self, path: str, role: Role, job: Job, phase: Phase) -> tuple[float, float]:
        """Return (worst, expected) seconds from the job's model and workload."""
        assert job.model is not None, "consistency.phases_are_given holds"
        assert job.workload is not None, "consistency.phases_are_given holds"
        pool = self.scenario.pools[phase.pool or ""]
        try:
            found = derived_phase(role, job.model, job.workload, job.engine, job.trainer, pool, phase.nodes)
        except InfeasibleError as error:
            reasons = "; ".join(error.reasons[:2])
            remedy = "give the phase more `nodes`, change `engine` or `trainer`, or give its time"
            self.faults.append(Finding(f"{path}.{role}", "", f"fits no layout on {phase.nodes} nodes of {phase.pool}: {reasons}", remedy))
            return 1.0, 1.0
        self.origins[found.provenance] += 1
        return found.worst_s, found.expected_s

    def _overhead(self, given: float | None, job: Job, reference: Looked | None) -> float:
        if given is not None:
            self.origins["imported"] += 1
            return given
        if self.scenario.overheads == "zero":
            return 0.0
        if reference is None:
            if job.name not in self.without_overheads:
                self.without_overheads.append(job.name)
            return 0.0
        self.origins[reference.provenance] += 1
        return reference.value

    def _sync(self, job: Job, rollout: Phase, train: Phase) -> Looked | None:
        size_b = job.size_or_model_b
        if size_b is None:
            return None
        streams = [link.bandwidth_gb_s for link in self.scenario.links if (link.source, link.target) == (train.pool, rollout.pool)]
        gpus = train.nodes * self.scenario.pools[train.pool or ""].gpus_per_node
        return sync_time(size_b, rollout.nodes, train.nodes, gpus, streams[0] if streams else None)

    def _memory(self, phase: Phase, job: Job, table: Mapping[float, float]) -> float:
        if phase.memory_gib is not None:
            self.origins["imported"] += 1
            return phase.memory_gib
        looked = look_up(table, job.size_or_model_b or 0)
        assert looked is not None, "consistency.memory_is_known holds"
        self.origins[looked.provenance] += 1
        return looked.value / GB_PER_GIB

    def warnings(self) -> list[str]:
        found = []
        if self.without_overheads:
            jobs = _some(self.without_overheads)
            found.append(
                f"sync and switch times are counted as 0 s where absent: {jobs} (give `sync` and `switch`, or a `size` that was measured)"
            )
        if self.one_value:
            found.append(f"expected times are unknown and taken as the worst case: {_some(self.one_value)}")
        return found


def _some(names: list[str], limit: int = 3) -> str:
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
