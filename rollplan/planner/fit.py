"""Does it fit? The memory bill of one job, the smallest change if it does not, and the fewest GPUs that would do."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from rollplan.models.accelerator import Gpu
from rollplan.models.architecture import Architecture
from rollplan.models.describe_split import options_of
from rollplan.models.errors import Finding, InfeasibleError, InputError
from rollplan.models.hardware import Pool
from rollplan.models.layout import Layout, divisors, obstacle
from rollplan.models.memory.bill import MemoryBill, bill
from rollplan.models.memory.explain import explain
from rollplan.models.memory.fitting import Option, smallest_change
from rollplan.models.memory.minimum import Minimum, minimum_gpus
from rollplan.models.memory.setup import Role, Setup, time_shared
from rollplan.models.recipe import Workload
from rollplan.models.reference.gpus import gpu
from rollplan.models.scenario import Scenario
from rollplan.models.split.given import Split, budgets
from rollplan.models.stages.compile import compiled, work_of
from rollplan.models.stages.engines import rollout_setup
from rollplan.models.stages.options import counts
from rollplan.models.stages.trainer import Site, Trainer
from rollplan.planner.modelled import modelled_job
from rollplan.planner.split import decide


@dataclass(frozen=True, slots=True)
class Fit:
    """The memory of one job. pools: where each role lies. options: smallest changes, if it does not fit. minimum: by memory."""

    job: str
    setup: Setup
    pools: Mapping[Role, str]
    bill: MemoryBill
    sentence: str
    options: tuple[Option, ...]
    hopeless: tuple[str, ...]
    minimum: Minimum


def fit(
    scenario: Scenario, job: str | None = None, rollout: Layout | None = None, train: Layout | None = None, colocated: bool = False
) -> Fit:
    """Return the bill of a job's layouts: those given, else those of its plan, else the simplest on all of its GPUs.

    rollout, train: parallel layouts. colocated: both stages in turn on the same GPUs. Raises `InputError` for a job
    without a model, and for layouts that break a rule.
    """
    asked = modelled_job(scenario, job)
    split, model, workload = asked.split, asked.model, asked.workload
    pools = {pool: scenario.pools[pool] for pool in budgets(split, scenario.pools)}
    if rollout is None and train is None:
        rollout, train, colocated, places = _planned(scenario, split, pools, model, workload, colocated)
    else:
        places = _places(pools, colocated)
    setup = _setup(split, model, workload, pools, places, rollout, train, colocated)
    of_role: dict[Role, str] = {role: places[0] if role == "rollout" else places[1] for role in setup.roles}
    gpus: dict[Role, Gpu] = {role: gpu(pools[pool].gpu) for role, pool in of_role.items()}
    found = bill(setup, gpus)
    options: tuple[Option, ...] = ()
    hopeless: tuple[str, ...] = ()
    if not found.fits:
        try:
            options = smallest_change(setup, gpus)
        except InfeasibleError as error:
            hopeless = error.reasons[-1:]
    return Fit(asked.name, setup, of_role, found, explain(setup, gpus), options, hopeless, minimum_gpus(setup, gpus))


def _planned(
    scenario: Scenario, split: Split, pools: Mapping[str, Pool], model: Architecture, workload: Workload, colocated: bool
) -> tuple[Layout, Layout, bool, tuple[str, str]]:
    """Return layouts and pools of the plan; where it has none, the simplest layouts on all GPUs."""
    with suppress(InfeasibleError):
        ready = compiled(split, scenario.pools, scenario.links)
        decision, _ = decide(ready.problem)
        chosen = decision.colocated if colocated else decision.choice
        # Nothing fits in turn, or a number of GPUs was measured that no layout of ours has.
        engine, training = options_of(ready, chosen) if chosen else (None, None)
        if chosen and engine and training:
            return engine.layout, training.layout, chosen.mode == "colocated", (chosen.rollout_pool, chosen.train_pool)
    rollout_pool, train_pool = places = _places(pools, colocated)
    budget, node = budgets(split, scenario.pools)[train_pool], pools[rollout_pool].gpus_per_node
    numbers = counts(budget, pools[train_pool].gpus_per_node)
    train = _trainer(split, model, workload, pools[train_pool], numbers).largest() or Layout(dp=budget)
    tp = _widest(model, node, train.gpus if colocated else node)
    return Layout(tp=tp, dp=train.gpus // tp if colocated else 1), train, colocated, places


def _widest(model: Architecture, gpus_per_node: int, gpus: int) -> int:
    """Return the largest tensor parallel degree that divides `gpus`."""
    return max(tp for tp in divisors(gpus) if obstacle(model, Layout(tp=tp), gpus_per_node) is None)


def _places(pools: Mapping[str, Pool], colocated: bool) -> tuple[str, str]:
    """Return the first pools that may roll out and train; the same one if both are to take turns and one may do both."""
    if colocated and (both := next((name for name, pool in pools.items() if pool.role == "any"), None)):
        return both, both
    rollout = next((name for name, pool in pools.items() if pool.role in ("rollout", "any")), next(iter(pools)))
    train = next((name for name, pool in pools.items() if pool.role in ("train", "any")), next(iter(pools)))
    return rollout, train


def _setup(
    split: Split,
    model: Architecture,
    workload: Workload,
    pools: Mapping[str, Pool],
    places: tuple[str, str],
    rollout: Layout | None,
    train: Layout | None,
    colocated: bool,
) -> Setup:
    for layout, pool in ((rollout, places[0]), (train, places[1])):
        if layout is not None and (reason := obstacle(model, layout, pools[pool].gpus_per_node)):
            raise _refused("layout", f"`{layout}`", f"cannot be: {reason}", "choose degrees that divide")
    engine = None if rollout is None else rollout_setup(model, rollout, workload, split.engine)
    if colocated and places[0] != places[1]:
        raise _refused("--colocated", "", "needs a pool that may roll out and train", "give a pool the role `any`")
    if colocated and (rollout is None or train is None or rollout.gpus != train.gpus):
        raise _refused("--colocated", "", "needs layouts of both stages on as many GPUs", "give --rollout and --train, or none of the two")
    if train is None:
        return Setup(rollout=engine)
    trained = _trainer(split, model, workload, pools[places[1]], (train.gpus,)).setup(train)
    if not colocated:
        return replace(trained, rollout=engine)
    return time_shared(replace(trained, rollout=engine, shared=()))


def _trainer(split: Split, model: Architecture, workload: Workload, pool: Pool, numbers: tuple[int, ...]) -> Trainer:
    return Trainer(model, Site(gpu(pool.gpu), pool.gpus_per_node, pool.memory_gib, numbers), work_of(workload), workload, split.trainer)


def _refused(place: str, value: str, problem: str, remedy: str) -> InputError:
    return InputError("fit", [Finding(place, value, problem, remedy)])
