"""Weights follow the trainer, with real tensors: every rollout uses exactly the version that it is told, after a restart, too."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rollplan.executor.core.runbook import SyncPlan
from rollplan.executor.shell.saved import SavedStates
from tests.executor.shell.sleepers import PYTHON, SAMPLES, Driven, book, sleeper

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason="ROLLPLAN_VLLM_PYTHON must name the Python of an environment with ray and torch"),
]
PROGRAM = '''
import json
from pathlib import Path
import torch
from rollplan.executor.api import Sample, phase

class State:
    """The weight is how often the optimizer stepped; a trainer's starts at 100, an engine's at something else."""
    def __init__(self, start): self.tensor, self.versions = torch.full((1000,), float(start)), []
    def load(self): pass
    def offload(self): pass
    def state_bytes(self): return 4000
    def save(self, folder): (folder / "weight.json").write_text(json.dumps(float(self.tensor[0])))
    def restore(self, folder): self.tensor.fill_(json.loads((folder / "weight.json").read_text()))

class Trainer(State):
    def weights(self): return {"w": self.tensor}

class Engine(State):
    def update(self, weights, version):
        self.tensor.copy_(weights["w"])
        self.versions.append(version)

@phase(pool="rollout")
def init(worker):
    worker.state["it"] = Engine(-1)
    worker.keep(worker.state["it"])

@phase(pool="train", kind="init")
def begin(worker):
    worker.state["it"] = Trainer(100)
    worker.keep(worker.state["it"])

@phase(pool="rollout")
def rollout(worker, task):
    engine = worker.state["it"]
    for number in task.samples:
        yield Sample(number, task.iteration, task.version, (), (int(engine.tensor[0]),), (0.0,), extra={"last": int(engine.tensor[-1])})

@phase(pool="train")
def train(worker, task):
    trainer = worker.state["it"]
    for sample in task.samples:
        assert sample.tokens == (100 + sample.version,), (sample, trainer.tensor[0])
        assert sample.extra["last"] == 100 + sample.version
    once = Path(worker.settings["once"])
    if task.iteration == 2 and worker.rank == 0 and not once.exists():
        once.touch()
        raise RuntimeError("once")
    trainer.tensor += 1
    return {"version": min(sample.version for sample in task.samples)}
'''


@pytest.mark.parametrize(("sync", "copies"), [("two-stage", 0.5), ("flat", 1.0)])
def test_every_sample_is_made_by_the_weights_it_names(tmp_path: Path, sync: SyncPlan, copies: float) -> None:
    """Two ranks send, two nodes receive; the third iteration fails once, and the restored weights reach the new workers.

    copies: of the 4000 bytes of the weights, how many each rank sends.
    """
    (tmp_path / "follows.py").write_text(PROGRAM, encoding="utf-8")
    nodes = ("rollout-0", "rollout-1")
    usual = sleeper("a", nodes, iterations=5, train_ranks=2, sync=sync)
    job = replace(usual, module=str(tmp_path / "follows.py"), settings={"once": str(tmp_path / "once")})
    with Driven(book(job), tmp_path / "run") as run:
        assert run.end() == 0, run.all("remark")
        assert [one["text"] for one in run.all("remark") if "RuntimeError: once" in one["text"]]
        # The failed attempt has records of its own rank alone.
        versions = {one["iteration"]: one["values"]["version"] for one in run.records("train") if one["worker"] == 0}
        assert versions == {iteration: float(iteration) for iteration in range(5)}
        assert [one["values"]["bytes"] for one in run.records("sync")] == [copies * 4000] * 4
        assert len(run.events("SamplesDone")) >= 5 * SAMPLES
        states = SavedStates(run.folder, "a")
        assert json.loads((states.of(5) / "weight.json").read_text()) == 105.0


def test_weights_move_while_the_next_iteration_trains(tmp_path: Path) -> None:
    """One step of staleness: every sample is at most one version behind, and the assertions of the program hold."""
    (tmp_path / "follows.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "once").touch()
    usual = sleeper("a", iterations=6, way="async-batch", staleness=1)
    job = replace(usual, module=str(tmp_path / "follows.py"), settings={"once": str(tmp_path / "once")})
    with Driven(book(job), tmp_path / "run") as run:
        assert run.end() == 0, run.all("remark")
        behind = [one["iteration"] - one["values"]["version"] for one in run.records("train")]
        assert len(behind) == 6
        assert set(behind) <= {0.0, 1.0}
        assert 1.0 in behind
