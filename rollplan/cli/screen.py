"""What people see: screens of at most 100 columns, readable without colour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rollplan.cli.split_screen import split_part
from rollplan.cli.split_timeline import split_timeline
from rollplan.cli.tables import labelled, new_table, percent
from rollplan.cli.timeline import timeline
from rollplan.models.certified import gap
from rollplan.models.check import CheckReport
from rollplan.models.colocation.certificate import MAX_EXHAUSTIVE_JOBS
from rollplan.models.plan import Busy, Plan, PlannedGroup, PlannedJob
from rollplan.planner.explain import JobReason, binding_text, proof_texts
from rollplan.planner.proofs import gangs_of


def plan_screen(plan: Plan, seconds: float | None = None) -> RenderableType:
    """Return the first screen: cost, certificate, who idles, which group runs what, what to be careful about."""
    parts: list[RenderableType] = [
        Text(f"{plan.scenario.name}   {_verdict(plan)}{'' if seconds is None else f', {seconds:.1f} s'}"),
        Text(),
    ]
    parts += [Text(line) for line in _cost_lines(plan)]
    parts += [Text(), _pool_table(plan)]
    if plan.groups:
        parts += [Text(), *_groups(plan)]
    for split in plan.splits:
        parts += [Text(), *split_part(split)]
    parts += [Text(), labelled("numbers", _numbers(plan)), *(labelled("warning", warning) for warning in plan.warnings)]
    return Group(*parts)


def check_screen(plan: Plan, report: CheckReport, allowed: float | None, other_scenario: bool = False) -> RenderableType:
    """Return the verdict of `check`: checked beside claimed; of a plan of another scenario only the first faults, which say so."""
    lines = [f"{plan.scenario.name}   {'valid' if report.valid else 'NOT VALID'}", ""]
    if report.value is not None and report.checked is not None and report.claimed_bound is not None:
        lines += [
            f"  value     {report.value:12.2f} $/h",
            f"  checked   {report.checked.value:12.2f} $/h   {report.checked.proof}",
            f"  claimed   {report.claimed_bound:12.2f} $/h   by the solver, {_claimed_proof(plan)}",
        ]
        if report.checked.note:
            lines.append(f"  note      {report.checked.note}")
    limit = "" if allowed is None else f"   allowed {percent(allowed)}: {'ok' if report.checked_gap <= allowed + 1e-9 else 'TOO LARGE'}"
    lines.append(f"  gap       {percent(report.checked_gap)} checked{limit}")
    shown = report.faults[:_FEW_FAULTS] if other_scenario else report.faults
    items = [("note", note) for note in report.notes] + [("fault", fault) for fault in shown]
    if len(shown) < len(report.faults):
        items.append(("", f"... and {len(report.faults) - len(shown)} more (--json has all)"))
    return Group(*map(Text, lines), *(labelled(kind, text) for kind, text in items))


_FEW_FAULTS = 4
"""Of a plan of another scenario nearly every number is wrong, and that says nothing."""


def explain_screen(plan: Plan, missed: Mapping[str, Sequence[str]]) -> RenderableType:
    """Return every group with its jobs and what binds it, every split, and why targets are missed, by split."""
    parts: list[RenderableType] = [Text(f"{plan.scenario.name}   {_verdict(plan)}"), Text()]
    proofs = proof_texts(plan)
    for group in plan.groups:
        nodes = f"{_nodes(group)}   {group.cost_per_h:.2f} $/h (alone {group.solo_cost_per_h:.2f})"
        idle = f"idle {percent(1 - group.rollout_busy.worst, 0)} of rollout, {percent(1 - group.train_busy.worst, 0)} of training"
        parts += [Text(f"{group.name}   {nodes}   {idle}"), Text(f"  {binding_text(group)}")]
        parts += [labelled("proof", proofs[group.name]), _job_table(group)]
        parts += [*map(Text, timeline(group)), Text()]
    for split in plan.splits:
        because = [labelled("because", line) for line in missed.get(split.name, ())]
        parts += [*split_part(split), *because, *map(Text, split_timeline(split.choice)), Text()]
    parts.append(labelled("numbers", _numbers(plan)))
    return Group(*parts)


def job_screen(plan: Plan, reason: JobReason) -> RenderableType:
    """Return why a job is where it is."""
    group = next(group for group in plan.groups if group.name == reason.group)
    company = ", ".join(job.name for job in group.jobs if job.name != reason.job)
    parts: list[RenderableType] = [Text(f"{reason.job} is in {reason.group}{f' with {company}' if company else ', alone'}")]
    if company:
        parts.append(Text(f"  alone it would cost {reason.alone_extra_per_h:.2f} $/h more than there"))
    parts += [Text(f"  {binding_text(group)}"), labelled("proof", reason.proof)]
    parts += [labelled("busier", reason.better)] if reason.better else []
    parts += [Text(f"  {other.group}: {'' if other.possible else 'no: '}{other.reason}") for other in reason.alternatives]
    return Group(*parts)


def _verdict(plan: Plan) -> str:
    certificate = plan.certificate
    if certificate is None:
        largest = max((split.gap for split in plan.splits), default=0.0)
        best = "proven optimal (gap 0.0 %)" if largest <= 1e-9 else f"gap {percent(largest)} to the best split (trim paper)"
        return f"{best}, seed {plan.settings.seed}"
    if certificate.claimed_gap <= 1e-9:
        return f"proven optimal (gap 0.0 %), seed {plan.settings.seed}"
    return f"gap at most {percent(certificate.claimed_gap)} ({certificate.stopped}), seed {plan.settings.seed}"


def _cost_lines(plan: Plan) -> Iterator[str]:
    comparison, certificate = plan.comparison, plan.certificate
    yield f"  cost      {plan.cost_per_h:12.2f} $/h"
    if comparison is None or certificate is None:
        return
    splits = sum(split.choice.cost_per_h for split in plan.splits)
    if splits:
        yield f"  of which  {certificate.value:12.2f} $/h co-located, {splits:.2f} $/h split jobs"
    yield f"  bound     {certificate.claimed_bound:12.2f} $/h   no plan costs less: {_claimed_proof(plan)}"
    if certificate.witness_bound < certificate.claimed_bound - 0.005 and not _searched_again(plan):
        provable = gap(certificate.value, certificate.witness_bound)
        long = plan.settings.max_rate > 1 and sum(len(group.jobs) for group in plan.groups) > _LISTED_SOON
        can = "proves again, given time" if long else "can prove again"
        yield f"  checkable {certificate.witness_bound:12.2f} $/h   the part that `check` {can} (gap {percent(provable)})"
    yield f"  alone     {comparison.solo:12.2f} $/h   every job on its own nodes{_saving(certificate.value, comparison.solo)}"
    if comparison.paper_admission is None:
        yield "  RollMux              -       its admission finds no room for these jobs"
    else:
        paper = comparison.paper_admission
        yield f"  RollMux   {paper:12.2f} $/h   its admission, job by job{_saving(certificate.value, paper)}"


_LISTED_SOON = 40
"""Jobs up to which `check` lists all groups with several runs per period within its time limit, however well they fit together."""


def _searched_again(plan: Plan) -> bool:
    """Return whether `check` proves the optimum by searching every partition: few jobs whose nodes the closed form counts."""
    few = sum(len(group.jobs) for group in plan.groups) <= MAX_EXHAUSTIVE_JOBS
    return few and plan.settings.max_rate == 1 and not gangs_of(plan)


def _numbers(plan: Plan) -> str:
    """Return where the inputs come from."""
    origins = Counter(plan.provenance)
    for split in plan.splits:
        origins.update(split.provenance)
    counted = [f"{count} {origin}" for origin, count in sorted(origins.items())]
    tables = sum(not split.provenance for split in plan.splits)
    return ", ".join([*counted, *([f"tables of {tables} splits"] if tables else [])])


def _saving(value: float, other: float) -> str:
    return f": this plan {100 * (value / other - 1):+.1f} %" if other > 0 else ""


def _claimed_proof(plan: Plan) -> str:
    assert plan.certificate is not None
    names = {
        "LP relaxation": "LP over all feasible groups",
        "branch and bound": "branch and bound over all feasible groups",
        "fluid": "work and memory without regard to pieces",
    }
    return names.get(plan.certificate.claimed_proof, plan.certificate.claimed_proof)


def _pool_table(plan: Plan) -> Table:
    table = new_table(("pool", "left"), ("GPU", "left"), ("GPUs", "right"), ("busy", "right"), ("idle", "right"), ("$/h", "right"))
    for name, use in plan.pools.items():
        per_node = use.gpus // use.nodes if use.nodes else 0
        count = f"{use.gpus} (={use.nodes}x{per_node})" if use.nodes else "0"
        table.add_row(name, use.gpu, count, _busy(use.busy), _busy(use.busy, idle=True), f"{use.cost_per_h:.2f}")
    return table


def _groups(plan: Plan) -> Iterator[RenderableType]:
    """Yield the table of groups; of very many only those whose SLOs leave least room, since nobody reads hundreds of rows."""
    if len(plan.groups) <= _MOST_GROUPS:
        yield _group_table(plan.groups)
        return
    tightest = {group.name for group in sorted(plan.groups, key=lambda group: group.headroom)[:_FEW_GROUPS]}
    yield _group_table(group for group in plan.groups if group.name in tightest)
    yield Text(f"  and {len(plan.groups) - _FEW_GROUPS} more groups, whose SLOs leave more room: `rollplan explain` shows all")


_MOST_GROUPS, _FEW_GROUPS = 100, 20


def _group_table(groups: Iterable[PlannedGroup]) -> Table:
    table = new_table(
        ("group", "left"), ("job", "left"), ("slowdown", "right"), ("SLO", "right"), ("expected", "right"), ("nodes", "right"),
        ("period", "right"), ("set by", "left"), ("busy", "right"), ("$/h", "right"),
    )  # fmt: skip
    for group in groups:
        for position, job in enumerate(group.jobs):
            expected = f"{job.expected_slowdown:.2f}{'!' if job.expected_slowdown > job.slo * (1 + 1e-9) else ' '}"
            busy = f"{100 * group.rollout_busy.worst:.0f} + {100 * group.train_busy.worst:.0f} %"
            nodes = f"{group.rollout_nodes} + {group.train_nodes}"
            of_group = (nodes, f"{group.period_s:.1f} s", _SET_BY[group.binds.split()[0]], busy, f"{group.cost_per_h:.2f}")
            first = position == 0
            cells = of_group if first else ("",) * len(of_group)
            table.add_row(group.name if first else "", _named(job), f"{job.slowdown:.2f}", f"{job.slo:g}", expected, *cells)
    return table


_SET_BY = {"job": "longest job", "training": "training", "rollout": "rollout", "order": "order"}
"""What sets a period, by the first word of `PlannedGroup.binds`."""


def _job_table(group: PlannedGroup) -> Table:
    table = new_table(
        ("job", "left"), ("rollout nodes", "left"), ("rollout", "right"), ("train", "right"), ("alone", "right"), ("slowdown", "right"),
        ("SLO", "right"), ("expected", "right"), ("memory", "right"),
    )  # fmt: skip
    for job in group.jobs:
        known = "" if job.expected_known else "?"
        table.add_row(
            _named(job),
            ",".join(map(str, job.rollout_nodes)),
            f"{job.rollout_s:.1f} s",
            f"{job.train_s:.1f} s",
            f"{job.solo_s:.1f} s",
            f"{job.slowdown:.3f}",
            f"{job.slo:g}",
            f"{job.expected_slowdown:.3f}{known}",
            f"{job.rollout_memory_gib:.0f} + {job.train_memory_gib:.0f} GiB",
        )
    return table


def _named(job: PlannedJob) -> str:
    """Return the job's name, and how often it runs in a period if that is more than once."""
    return job.name if job.iterations == 1 else f"{job.name} x{job.iterations}"


def _nodes(group: PlannedGroup) -> str:
    return f"{group.rollout_nodes} rollout + {group.train_nodes} training nodes"


def _busy(busy: Busy | None, idle: bool = False) -> str:
    if busy is None:
        return "-"
    return percent(1 - busy.worst if idle else busy.worst, 0)
