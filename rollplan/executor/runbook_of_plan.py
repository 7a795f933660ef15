"""From a plan to a runbook: which resources there are, which job runs where and how, and what the plan promises of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor
from pathlib import Path
from typing import Literal

from rollplan.executor.core.runbook import Dispatch, JobRun, Policy, Predicted, Resource, Runbook, Way
from rollplan.models.errors import Finding, InputError
from rollplan.models.hardware import Pool
from rollplan.models.layout import Layout
from rollplan.models.plan import Plan, PlannedGroup, PlannedJob
from rollplan.models.plan_split import PlannedSplit, SplitChoice
from rollplan.models.program import Program
from rollplan.models.recipe import EngineSettings, Workload
from rollplan.models.resolve import ResolvedJob, resolve
from rollplan.models.round_robin import period
from rollplan.models.scenario import Scenario
from rollplan.models.workload import Job

_FILL = 8
"""An eighth of the samples fills a trainer that streams, where the program does not say."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """What a run changes: only these jobs (empty: all), other iterations, dispatches from files; by name of the job."""

    jobs: tuple[str, ...] = ()
    iterations: int | None = None
    dispatch: Mapping[str, Dispatch] = field(default_factory=dict)


def runbook(plan: Plan, policy: Policy = "round-robin", overrides: Overrides | None = None, folder: Path | None = None) -> Runbook:
    """Return what the executor needs of a plan.

    folder: where relative paths of programs start (absent: here). Predicted seconds are the plan's expected ones, of the jobs
    that run: fewer jobs of a group have a shorter period (with a timetable, that of the whole group is
    promised). Raises `InputError` for a plan that was changed after it was made,
    for names of jobs that it does not have, with every job that has no program, and for syncs that hold the rollout nodes.
    """
    if plan.seal != plan.content_hash():
        remedy = "plan again, or find out with `rollplan check` what was changed"
        raise InputError(plan.scenario.name, [Finding("seal", "", "is not that of this plan: it was changed after it was made", remedy)])
    asked = overrides or Overrides()
    made = _Maker(plan, asked, (folder or Path()).absolute())
    resources, jobs = made.all()
    return Runbook(plan.seal, policy, resources, jobs, str(made.folder))


class _Maker:
    def __init__(self, plan: Plan, asked: Overrides, folder: Path) -> None:
        self.plan, self.asked, self.folder = plan, asked, folder
        self.scenario = Scenario.from_dict(plan.scenario.content, plan.scenario.name)
        self.given = {job.name: job for job in self.scenario.jobs}
        self.resolved = {job.name: job for job in resolve(self.scenario).jobs}
        planned = [job.name for group in plan.groups for job in group.jobs] + [split.name for split in plan.splits]
        self.wanted = [name for name in planned if not asked.jobs or name in asked.jobs]
        self._refuse(planned)

    def _refuse(self, planned: Collection[str]) -> None:
        faults = [
            Finding("--job", f"`{name}`", "is not a job of the plan", f"choose from {', '.join(planned)}")
            for name in self.asked.jobs
            if name not in planned
        ]
        faults += [
            Finding("--dispatch", f"`{name}`", "is not a job that is run", f"choose from {', '.join(self.wanted) or 'none'}")
            for name in self.asked.dispatch
            if name not in self.wanted
        ]
        for name in self.wanted:
            program = self.given[name].program
            if program is None:
                remedy = "add `program: {module: ...}` to it in the scenario and plan again, or leave it out with --job"
                faults.append(Finding(f"job {name}", "", "has no `program`, so there is nothing to run", remedy))
            elif program.module.endswith(".py") and not (self.folder / program.module).is_file():
                remedy = f"put it there, or correct `program.module`; paths start at {self.folder}"
                faults.append(Finding(f"job {name}", f"`{program.module}`", "is not a file", remedy))
        for name in self.wanted:
            if name in self.resolved and self.resolved[name].gang:
                problem = "starts its rollout on several nodes at the same moment, which a run does not do yet"
                faults.append(
                    Finding(f"job {name}.gang", "`true`", problem, "leave it out with --job, or write `gang: false` and plan again")
                )
        if self.scenario.sync_holds == "rollout" and any(self.resolved[name].sync_s for name in self.wanted if name in self.resolved):
            problem = "is planned, but a run sends weights while it holds the training nodes"
            faults.append(Finding("sync_holds", "`rollout`", problem, "plan with `sync_holds: train`"))
        if faults:
            raise InputError(self.plan.scenario.name, faults)

    def all(self) -> tuple[tuple[Resource, ...], tuple[JobRun, ...]]:
        resources: list[Resource] = []
        jobs: list[JobRun] = []
        for group in self.plan.groups:
            members = tuple(job for job in group.jobs if job.name in self.wanted)
            if members:
                resources += self._group_resources(group, members)
                jobs += self._group_jobs(group, members)
        for split in self.plan.splits:
            if split.name in self.wanted:
                places, run = self._split(split)
                resources += places
                jobs.append(run)
        return tuple(resources), tuple(jobs)

    def _group_resources(self, group: PlannedGroup, members: tuple[PlannedJob, ...]) -> Iterator[Resource]:
        pool = self.scenario.pools[group.rollout_pool]
        for node in range(group.rollout_nodes):
            here = [job for job in members if node in job.rollout_nodes]
            if here:
                name, pinned = f"{group.name}/rollout-{node}", tuple(job.name for job in here)
                resource = Resource(name, group.rollout_pool, "rollout", pinned, 1, pool.gpus_per_node, pool.memory_gib)
                moments = [tuple(run.rollout_at_s[job.rollout_nodes.index(node)] for run in job.runs) for job in here]
                yield _in_turn(resource, moments, group.period_s)
        pool = self.scenario.pools[group.train_pool]
        names = tuple(job.name for job in members)
        trainer = Resource(f"{group.name}/train", group.train_pool, "train", names, group.train_nodes, pool.gpus_per_node, pool.memory_gib)
        yield _in_turn(trainer, [tuple(run.train_at_s for run in job.runs) for job in members], group.period_s)

    def _group_jobs(self, group: PlannedGroup, members: tuple[PlannedJob, ...]) -> Iterator[JobRun]:
        period_s = group.expected_period_s
        if len(members) < len(group.jobs) and not group.jobs[0].runs:
            busy = [job.expected_rollout_s for job in members], [job.expected_train_s for job in members]
            period_s = period(*busy, [job.rollout_nodes for job in members]).seconds
        for job in members:
            given, program = self._program(job.name)
            yield self._run(
                given,
                program,
                group=group.name,
                rollout=tuple(f"{group.name}/rollout-{node}" for node in job.rollout_nodes),
                predicted=self._predicted(job, self.resolved[job.name], period_s / job.iterations),
                engine=given.engine,
                workload=given.workload,
                rollout_memory_gib=job.rollout_memory_gib,
                train_memory_gib=job.train_memory_gib,
            )

    def _predicted(self, job: PlannedJob, resolved: ResolvedJob, period_s: float) -> Predicted:
        """Return the plan's seconds of a job taken apart: its busy times hold switches, those of training the sync, too."""
        rollout_s = job.expected_rollout_s - resolved.rollout_switch_s
        train_s = job.expected_train_s - resolved.train_switch_s - resolved.sync_s
        switches = resolved.rollout_switch_s, resolved.train_switch_s
        return Predicted(max(0.0, rollout_s), max(0.0, train_s), *switches, resolved.sync_s, period_s, job.expected_solo_s)

    def _split(self, split: PlannedSplit) -> tuple[list[Resource], JobRun]:
        given, program = self._program(split.name)
        asked, choice = given.split, split.choice
        assert asked is not None, "a plan has splits of jobs that ask for one"
        # No group is called so.
        group = f"split-{split.name}"
        train = f"{group}/train"
        turns = choice.mode == "colocated"
        pool = self.scenario.pools[choice.rollout_pool]
        places = [
            _place(f"{group}/rollout-{number}", choice.rollout_pool, pool, "rollout", split.name, gpus, train if turns else None)
            for number, gpus in enumerate(_instances(choice, pool))
        ]
        train_pool = self.scenario.pools[choice.train_pool]
        places.append(_place(train, choice.train_pool, train_pool, "train", split.name, choice.train_gpus))
        switch_s = split.switch_s / 2
        run = self._run(
            given,
            program,
            group=group,
            rollout=tuple(place.name for place in places[:-1]),
            predicted=Predicted(choice.rollout_s, choice.train_s, switch_s, switch_s, split.sync_s, choice.iteration_s, choice.iteration_s),
            engine=asked.engine,
            workload=asked.workload,
            # Stages that take turns cannot overlap.
            way="serial" if turns else choice.pipelining,
            staleness=0 if turns else floor(choice.staleness),
            chunks=asked.chunks if choice.pipelining == "mini-batch" else 1,
        )
        return places, run

    def _program(self, name: str) -> tuple[Job, Program]:
        given = self.given[name]
        assert given.program is not None, "jobs without a program are refused"
        return given, given.program

    def _run(
        self,
        given: Job,
        program: Program,
        *,
        group: str,
        rollout: tuple[str, ...],
        predicted: Predicted,
        engine: EngineSettings,
        workload: Workload | None,
        way: Way = "serial",
        staleness: int = 0,
        chunks: int = 1,
        rollout_memory_gib: float | None = None,
        train_memory_gib: float | None = None,
    ) -> JobRun:
        samples = program.samples or (given.responses if workload is None else workload.prompts * workload.samples_per_prompt)
        slots = engine.max_num_seqs
        usual = Dispatch("lpt" if engine.dispatch == "lpt" else "given", slots=slots, tail_slots=slots)
        return JobRun(
            name=given.name,
            group=group,
            module=program.module,
            iterations=self.asked.iterations or program.iterations,
            samples=samples,
            rollout=rollout,
            train=f"{group}/train",
            predicted=predicted,
            settings=dict(program.settings),
            seed=self.plan.settings.seed,
            train_ranks=program.ranks,
            way=way,
            staleness=staleness,
            chunks=min(chunks, samples),
            fill=min(samples, program.fill or max(1, samples // _FILL)),
            dispatch=self.asked.dispatch.get(given.name, usual),
            rollout_memory_gib=rollout_memory_gib,
            train_memory_gib=train_memory_gib,
            migrate_at=program.migrate_at,
            migrate_to=min(program.migrate_to, len(rollout)),
            sync=program.sync,
            hang_s=program.hang_s,
        )


def _in_turn(resource: Resource, moments: Sequence[tuple[float, ...]], period_s: float) -> Resource:
    """Return the resource with the moments of a timetable; without runs it serves in strict round robin."""
    return replace(resource, moments=tuple(moments), period_s=period_s) if any(moments) else resource


def _instances(choice: SplitChoice, pool: Pool) -> list[int]:
    """Return the GPUs of each rollout instance: of a copy in its layout; without a layout a node's, and what is left on the last."""
    copy = Layout.parse(choice.rollout_layout).gpus_per_copy if choice.rollout_layout else pool.gpus_per_node
    whole, rest = divmod(choice.rollout_gpus, copy)
    return [copy] * whole + ([rest] if rest else [])


def _place(
    name: str, pool_name: str, pool: Pool, kind: Literal["rollout", "train"], job: str, gpus: int, on: str | None = None
) -> Resource:
    """Return the resource of some GPUs: whole nodes, or the part of one with its share of the host memory."""
    nodes = -(-gpus // pool.gpus_per_node)
    on_node = -(-gpus // nodes)
    return Resource(name, pool_name, kind, (job,), nodes, on_node, pool.memory_gib * on_node / pool.gpus_per_node, on)
