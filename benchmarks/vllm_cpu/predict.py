"""Predict the workload that `measure.py` timed, from the latencies that it timed, and compare.

    python benchmarks/vllm_cpu/predict.py result.json

Runs in rollplan's own environment. Exit code 1 if the time of the whole workload is missed by more than 5 %,
or if some request finished after another number of steps than predicted.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from rollplan.models.decode import Admission, Generation, Requests, segments, simulate
from rollplan.models.latency import FloatArray, TableLatency

LIMIT = 0.05


def typical(step_s: list[list[float]]) -> FloatArray:
    """Return the seconds of each step, median over rounds (rounds, steps): disturbances hit other steps in other rounds."""
    return np.asarray(np.median(step_s, axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """What `measure.py` wrote."""

    raw: dict[str, Any]

    @property
    def requests(self) -> Requests:
        """The workload."""
        return Requests(self.raw["workload"]["prompt_tokens"], self.raw["workload"]["output_tokens"])

    @property
    def admission(self) -> Admission:
        """The engine's slots."""
        return Admission(self.raw["slots"])

    @property
    def seconds(self) -> float:
        """How long the workload took, the sum of its typical steps."""
        return float(typical(self.raw["workload"]["step_s"]).sum())

    @property
    def finish_s(self) -> FloatArray:
        """When each request of the workload finished, in seconds."""
        after = np.cumsum(typical(self.raw["workload"]["step_s"]))
        return after[np.array(self.raw["workload"]["finish_step"][0]) - 1]

    @property
    def rounds_s(self) -> list[float]:
        """Seconds of the whole workload by the clock, in each round, with all disturbances."""
        return [sum(steps) for steps in self.raw["workload"]["step_s"]]

    @property
    def spread(self) -> float:
        """By how much the rounds of the workload disagree: longest minus shortest, by the median."""
        return (max(self.rounds_s) - min(self.rounds_s)) / median(self.rounds_s)

    @property
    def schedule_holds(self) -> bool:
        """Whether in every round every request finished after exactly the predicted number of steps."""
        end = segments(self.requests, self.admission).end.tolist()
        return all(finish == end for finish in self.raw["workload"]["finish_step"])

    def latency(self) -> TableLatency:
        """Return the per-token latency by batch and context.

        Steps l + 1 to m after a prompt attend to prompt + (l + m + 1) / 2 tokens on average, their own among them.
        """
        cells: dict[tuple[int, float], float] = {}
        for point in self.raw["decode"]:
            steps = typical(point["step_s"])
            context = point["prompt_tokens"] + (point["warm_up"] + steps.size + 1) / 2
            cells[point["batch"], context] = 1000 * float(steps[point["warm_up"] :].mean())
        batches, contexts = (sorted(set(axis)) for axis in zip(*cells, strict=True))
        return TableLatency(batches, contexts, [[cells[batch, context] for context in contexts] for batch in batches])

    def latency_of_batch(self) -> TableLatency:
        """Return the per-token latency by batch alone, at the shortest context."""
        table = self.latency()
        return TableLatency.of_batch(dict(zip(table.batches.tolist(), table.ms[:, 0].tolist(), strict=True)))

    def prefill_s_per_token(self) -> float:
        """Return the seconds by which one prompt token delays everybody; the rest of an admission is spread over them."""
        raw = self.raw["admission"]
        extra_s = float(typical(raw["many_step_s"]).sum() - typical(raw["few_step_s"]).sum())
        return max(0.0, extra_s) / float(raw["more"] * raw["prompt_tokens"])

    def predictions(self) -> dict[str, Generation]:
        """Return the predicted workload by the inputs used; the last uses all."""
        flat, table, prefill = self.latency_of_batch(), self.latency(), self.prefill_s_per_token()
        return {
            "latency by batch": simulate([self.requests], self.admission, flat),
            "and by context": simulate([self.requests], self.admission, table),
            "and prefill": simulate([self.requests], self.admission, table, prefill),
        }

    def error(self, predicted: Generation) -> float:
        """Return the relative error of the time of the whole workload."""
        return predicted.seconds / self.seconds - 1

    def finish_error(self, predicted: Generation) -> float:
        """Return the mean distance of predicted and measured finish times of requests, by the time of the whole workload."""
        return float(np.abs(predicted.finish_s - self.finish_s).mean() / self.seconds)

    def report(self) -> str:
        """Return what was measured and predicted, as text."""
        table, slots = self.latency(), self.admission.slots
        versions = ", ".join(f"{name} {version}" for name, version in self.raw["versions"].items())
        lines = [f"{versions}, cores: {self.raw['cores']}, compute threads: {self.raw['threads']}", ""]
        lines += ["one step, ms    batch" + "".join(f"{batch:7d}" for batch in table.batches)]
        for context, column in zip(table.contexts, table.ms.T, strict=True):
            lines.append(f"  context {context:5.0f} tokens" + "".join(f"{ms:7.2f}" for ms in column))
        prompt = self.raw["admission"]["prompt_tokens"]
        lines += [f"one admission, ms  {1000 * self.prefill_s_per_token() * prompt:.2f} with {prompt} prompt tokens", ""]
        steps = segments(self.requests, self.admission).steps
        schedule = "as predicted, for every request" if self.schedule_holds else "not as predicted"
        rounds = ", ".join(f"{seconds:.2f}" for seconds in self.rounds_s)
        lines += [f"{len(self.requests)} requests, {int(self.requests.output_tokens.sum())} output tokens, {slots} slots"]
        lines += [f"schedule  {steps} steps, {schedule}"]
        lines += [f"measured  {self.seconds:.2f} s; rounds by the clock {rounds}, spread {self.spread:.1%}", ""]
        lines += ["predicted with       seconds    error   mean error of a request's finish"]
        for name, predicted in self.predictions().items():
            lines.append(f"{name:<20} {predicted.seconds:7.2f} {self.error(predicted):+8.1%} {self.finish_error(predicted):8.1%}")
        return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path, help="what measure.py wrote")
    measurement = Measurement(json.loads(parser.parse_args().result.read_text()))
    print(measurement.report())
    if not measurement.schedule_holds or abs(measurement.error(measurement.predictions()["and prefill"])) > LIMIT:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
