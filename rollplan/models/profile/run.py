"""A run of an RL framework, read from its log: one entry per step, in the same words for every framework.

Phases lie one after the other in the step of whoever wrote the line (in async modes, the trainer); what went on beside
them stands apart, because adding it would count seconds twice. In async modes frameworks call the trainer's wait for
samples `gen`: here it is `wait`, and never `generation`.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from rollplan.models.profile.origin import AtLeastZero, Text
from rollplan.models.strict import Strict

PhaseName = Literal[
    "generation",
    "wait",
    "reward",
    "old_logprob",
    "reference",
    "logprobs",
    "values",
    "advantage",
    "update",
    "critic_update",
    "sync",
    "switch",
    "data",
    "validation",
    "checkpoint",
    "other",
]
"""`logprobs`: old log-probs, reference and values where a framework times them together. `switch`: off-loading, loading,
resharding, sleeping, waking."""
BesideName = Literal["generation", "generation_mean", "training", "tools"]
"""Seconds that overlap the step: `generation` of a whole batch (the longest worker), mean over workers or samples."""
AmountName = Literal[
    "response_mean",
    "response_max",
    "response_min",
    "response_clipped",
    "prompt_mean",
    "prompt_max",
    "sequence_mean",
    "tokens",
    "samples",
    "tokens_per_gpu_s",
    "train_tokens_per_s",
    "generate_tokens_per_s",
    "mfu",
    "memory_gib",
    "trainer_idle",
    "rollout_idle",
    "staleness",
    "dropped",
    "preempted",
    "reward",
    "queue",
    "rollout_switch_s",
]
"""tokens, samples: of the whole step. *_mean, *_max, *_min: tokens; sequence: prompt and response together.
response_clipped, mfu, *_idle: shares. rollout_switch_s: the part of `switch` at the rollout nodes, in runs of rollplan."""
Mode = Literal["sync", "async", "unknown"]
PHASES: tuple[PhaseName, ...] = get_args(PhaseName)


class LoggedStep(Strict):
    """One step. Seconds and amounts are what the log says, in canonical names; nothing is filled in.

    step: the framework's number. step_s: the whole step; None if neither stated nor summable. total: how step_s was had;
    `summed` over the phases, `stated`, or `stated and mended` where the framework's total is known to leave phases out.
    dropped: why this step says nothing of the steady state, None if it counts.
    """

    step: Annotated[int, Field(ge=0, le=10**9)]
    step_s: AtLeastZero | None = None
    total: Literal["stated", "stated and mended", "summed", "timestamps", "none"]
    phases: dict[PhaseName, AtLeastZero] = Field(default_factory=dict)
    beside: dict[BesideName, AtLeastZero] = Field(default_factory=dict)
    amounts: dict[AmountName, float] = Field(default_factory=dict)
    dropped: Text | None = None

    @property
    def unexplained_s(self) -> float | None:
        """Seconds of the step that are in no phase; negative where the phases are longer than the step."""
        return None if self.step_s is None else self.step_s - sum(self.phases.values())


class LoggedRun(Strict):
    """All steps of one run. framework: as in the table of log readers; dialect: which of its line grammars, in words.

    mode: sync, async, or unknown; mode_reason: which words of the log say so. gpus: inferred from the log itself.
    source: the file and, if it holds several runs, which. warnings: what a reader must know before trusting the numbers.
    """

    framework: Text
    dialect: Text
    mode: Mode
    mode_reason: Text
    source: Text
    gpus: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    steps: tuple[LoggedStep, ...]
    warnings: tuple[Text, ...] = ()

    @property
    def kept(self) -> tuple[LoggedStep, ...]:
        """Steps that count."""
        return tuple(step for step in self.steps if step.dropped is None)
