"""Rules across the parts of a scenario, one function each; together they report everything at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rollplan.models.errors import Finding, InputError
from rollplan.models.hardware import Link, Pool, Role
from rollplan.models.overheads import ROLLOUT_MEMORY_GB, TRAIN_MEMORY_GB
from rollplan.models.phase_times import PhaseTimes
from rollplan.models.reference.gpus import gpu_name
from rollplan.models.split.given import budgets
from rollplan.models.workload import Job, Phase

Pools = Mapping[str, Pool]


def findings(pools: Pools, links: Sequence[Link], profiles: Mapping[str, PhaseTimes], jobs: Sequence[Job]) -> Iterator[Finding]:
    """Yield every fault that no single field shows."""
    yield from names_are_unique(jobs)
    yield from links_join_pools(pools, links)
    yield from links_are_unique(links)
    yield from budgets_fit_together(pools, jobs)
    for index, job in enumerate(jobs):
        path = f"jobs[{index}]"
        if job.split is not None:
            yield from split_stands_alone(path, job)
            yield from split_pools_exist(path, job, pools)
            yield from split_gpus_are_known(path, job, pools)
        else:
            yield from model_comes_with_workload(path, job)
            yield from phases_are_given(path, job, profiles)
            yield from phase_pools_exist(path, job, pools)
            yield from memory_is_known(path, job)
            yield from phase_gpus_are_known(path, job, pools)


def names_are_unique(jobs: Sequence[Job]) -> Iterator[Finding]:
    """Plans speak of jobs by name."""
    for name, count in Counter(job.name for job in jobs).items():
        if count > 1:
            places = ", ".join(f"jobs[{index}]" for index, job in enumerate(jobs) if job.name == name)
            yield Finding(
                f"{places.split(',')[0]}.name", f"`{name}`", f"is the name of {count} jobs ({places})", "give each job its own name"
            )


def links_join_pools(pools: Pools, links: Sequence[Link]) -> Iterator[Finding]:
    """Both ends of a link are pools."""
    for index, link in enumerate(links):
        for key, name in (("from", link.source), ("to", link.target)):
            if name not in pools:
                yield Finding(f"links[{index}].{key}", f"`{name}`", "is not a pool", f"choose from {', '.join(pools)}")


def links_are_unique(links: Sequence[Link]) -> Iterator[Finding]:
    """One link leads from a pool to another; a second one would say something else of the same network."""
    ends = [(link.source, link.target) for link in links]
    for index, (source, target) in enumerate(ends):
        if (first := ends.index((source, target))) < index:
            yield Finding(f"links[{index}]", f"`{source} to {target}`", f"is in links[{first}] already", "keep one of the two")


def split_stands_alone(path: str, job: Job) -> Iterator[Finding]:
    """A split decides the phases; what belongs to a co-located job would be ignored beside it."""
    for name in sorted(job.model_fields_set - {"name", "split", "program"}):
        key = type(job).model_fields[name].alias or name
        remedy = "write it inside `split`" if key == "sync" else f"remove `{key}` or `split`"
        yield Finding(f"{path}.{key}", "", "cannot stand beside `split`", remedy)


def split_pools_exist(path: str, job: Job, pools: Pools) -> Iterator[Finding]:
    """Tables and budgets name pools, and every pool with a table has a budget that fits into it."""
    assert job.split is not None
    available = budgets(job.split, pools)
    for key, names in (("budget", job.split.budget), ("rollout", job.split.rollout), ("train", job.split.train)):
        for name in names:
            if name not in pools:
                yield Finding(f"{path}.split.{key}.{name}", "", "is not a pool", f"choose from {', '.join(pools)}")
            elif name not in available:
                yield Finding(f"{path}.split.{key}.{name}", "", "has no budget", f"add `budget: {{{name}: <GPUs>}}`")
    if not available:
        yield Finding(f"{path}.split.budget", "", "is missing, and no pool says how many nodes it has", "add it, or `nodes` to a pool")
    for name, gpus in job.split.budget.items():
        pool = pools.get(name)
        if pool and pool.nodes is not None and gpus > pool.nodes * pool.gpus_per_node:
            yield Finding(
                f"{path}.split.budget.{name}",
                f"`{gpus}`",
                f"is more than the pool has ({pool.nodes} nodes x {pool.gpus_per_node} GPUs = {pool.nodes * pool.gpus_per_node})",
                "lower the budget or raise `nodes`",
            )


def split_gpus_are_known(path: str, job: Job, pools: Pools) -> Iterator[Finding]:
    """Stage times are derived for GPUs with published numbers only."""
    assert job.split is not None
    if job.split.model is None:
        return
    for name in budgets(job.split, pools):
        yield from _gpu_is_known(name, pools, f"{path}.split")


def _gpu_is_known(name: str, pools: Pools, user: str) -> Iterator[Finding]:
    try:
        if name in pools:
            gpu_name(pools[name].gpu)
    except InputError as error:
        found = error.findings[0]
        yield Finding(f"pools.{name}.gpu", found.value, found.problem, f"{found.remedy}; {user} derives its times from it")


def budgets_fit_together(pools: Pools, jobs: Sequence[Job]) -> Iterator[Finding]:
    """Each split has whole nodes for its budget to itself; one budget above its pool is `split_pools_exist`'s matter."""
    for name, pool in pools.items():
        reserved = {f"jobs[{index}]": budgets(job.split, pools).get(name, 0) for index, job in enumerate(jobs) if job.split is not None}
        needed = sum(-(-gpus // pool.gpus_per_node) for gpus in reserved.values())
        if pool.nodes is not None and needed > pool.nodes and max(reserved.values()) <= pool.nodes * pool.gpus_per_node:
            shown = ", ".join(path for path, gpus in reserved.items() if gpus)
            yield Finding(
                f"pools.{name}.nodes",
                f"`{pool.nodes}`",
                f"is less than the {needed} whole nodes in the split budgets of {shown}",
                "lower the budgets (absent, a budget is the whole pool) or raise `nodes`",
            )


def phases_are_given(path: str, job: Job, profiles: Mapping[str, PhaseTimes]) -> Iterator[Finding]:
    """Each phase has a time of its own or one from a profile; the guarantee `bound` needs the worst case."""
    if job.profile is not None and job.profile not in profiles:
        yield Finding(f"{path}.profile", f"`{job.profile}`", "is not in `profiles`", f"choose from {', '.join(profiles) or 'none given'}")
    for key in ("rollout", "train"):
        phase: Phase | None = getattr(job, key)
        if (phase is None or phase.time is None) and job.profile is None and (job.model is None or job.workload is None):
            remedy = f"write `{key}: 133 s`, name a `profile`, or give `model` and `workload`"
            yield Finding(f"{path}.{key}", "", "gives no time", remedy)
        elif phase is not None and phase.time is not None and phase.time.worst_s is None:
            yield Finding(
                f"{path}.{key}.time",
                "",
                "gives no worst case, which the guarantee `bound` rests on",
                "add `worst: <seconds when every response hits the token limit>`",
            )


def model_comes_with_workload(path: str, job: Job) -> Iterator[Finding]:
    """Phase times are derived from both; engine and trainer without them would be without effect."""
    given = sorted(job.model_fields_set & {"model", "workload", "engine", "trainer"})
    if given and (job.model is None or job.workload is None):
        missing = " and ".join(f"`{key}`" for key in ("model", "workload") if getattr(job, key) is None)
        yield Finding(f"{path}.{given[0]}", "", f"has no effect without {missing}", f"add {missing}, or leave it out")


def phase_pools_exist(path: str, job: Job, pools: Pools) -> Iterator[Finding]:
    """Each phase runs in one pool that is meant for it."""
    roles: tuple[Role, ...] = ("rollout", "train")
    for role in roles:
        phase: Phase | None = getattr(job, role)
        if phase is not None and phase.pool is not None:
            if phase.pool not in pools:
                yield Finding(f"{path}.{role}.pool", f"`{phase.pool}`", "is not a pool", f"choose from {', '.join(pools)}")
            elif pools[phase.pool].role not in (role, "any"):
                yield Finding(
                    f"{path}.{role}.pool", f"`{phase.pool}`", f"has the role {pools[phase.pool].role}", f"choose a pool for {role}"
                )
        elif len(fitting := pools_for(role, pools)) != 1:
            problem = "has no pool to run in" if not fitting else f"could run in {len(fitting)} pools ({', '.join(fitting)})"
            remedy = f"add a pool with `role: {role}`" if not fitting else f"write `{role}: {{pool: {fitting[0]}, ...}}`"
            yield Finding(f"{path}.{role}", "", problem, remedy)


def phase_gpus_are_known(path: str, job: Job, pools: Pools) -> Iterator[Finding]:
    """Phase times are derived for GPUs with published numbers only."""
    if job.model is None or job.profile is not None:
        return
    roles: tuple[Role, ...] = ("rollout", "train")
    for role in roles:
        phase: Phase | None = getattr(job, role)
        if phase is None or phase.time is None:
            name = phase.pool if phase is not None and phase.pool is not None else next(iter(pools_for(role, pools)), "")
            yield from _gpu_is_known(name, pools, path)


def memory_is_known(path: str, job: Job) -> Iterator[Finding]:
    """Residency needs the footprint of both phases: given, or measured for a model of this size."""
    for key, table in (("rollout", ROLLOUT_MEMORY_GB), ("train", TRAIN_MEMORY_GB)):
        phase: Phase | None = getattr(job, key)
        if phase is not None and phase.memory_gib is not None:
            continue
        low, high = min(table), max(table)
        size_b = job.size_or_model_b
        if size_b is None:
            yield Finding(
                f"{path}.{key}.memory", "", "is missing", f"write `memory: 240 GB`, or `size:` of the model ({low:g}B to {high:g}B)"
            )
        elif not low <= size_b <= high:
            yield Finding(
                f"{path}.{key}.memory",
                "",
                f"is missing, and a size of {size_b:g}B lies outside the measured {low:g}B to {high:g}B",
                "write `memory: 240 GB` (host memory per node)",
            )


def pools_for(role: Role, pools: Pools) -> list[str]:
    """Return the pools a phase may run in: those made for its role, else those made for any."""
    return [name for name, pool in pools.items() if pool.role == role] or [name for name, pool in pools.items() if pool.role == "any"]
