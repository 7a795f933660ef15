"""One job in depth: what it trains, on which lengths, with which engine and trainer. The planner derives stage times."""

from __future__ import annotations

from functools import cached_property
from math import exp, log1p
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from rollplan.models.architecture import Architecture
from rollplan.models.counted import GpuCount, StageTable, WholeNumberKeys
from rollplan.models.errors import InputError
from rollplan.models.latency_given import LatencyTable
from rollplan.models.lengths.drift import Drift
from rollplan.models.lengths.given import LengthsInput
from rollplan.models.lengths.quantile import QuantileLaw
from rollplan.models.memory.setup import Checkpointing, Sharding
from rollplan.models.reference.architectures import architecture
from rollplan.models.strict import Strict, refusal
from rollplan.models.units import Seconds


def _known_model(raw: object) -> object:
    if not isinstance(raw, str):
        if not isinstance(raw, (dict, Architecture)):
            raise refusal("is neither the name of a model nor a mapping", "write a name such as Qwen3-8B, or `{config: <path>}`")
        return raw
    try:
        return architecture(raw).model_dump()
    except InputError as error:
        raise refusal(error.findings[0].problem, error.findings[0].remedy) from None


def _more_than_embeddings(model: Architecture) -> Architecture:
    tables_b = model.vocab * model.hidden * (1 if model.tied_embeddings else 2) / 1e9
    if tables_b >= model.params_b - model.expert_params_b:
        raise refusal(
            f"has {tables_b:.3g} x 10^9 parameters in its embeddings, which leaves none for its layers",
            "correct `params_b` (experts included), `vocab`, `hidden` or `tied_embeddings`",
        )
    return model


class _ModelSchema:
    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [handler(schema), {"type": "string", "description": "name of a reference model, such as Qwen3-8B"}]}


Model = Annotated[Architecture, BeforeValidator(_known_model), AfterValidator(_more_than_embeddings), _ModelSchema]
Degrees = Annotated[tuple[Annotated[int, Field(ge=1, le=4096)], ...], Field(min_length=1, max_length=64)]


class Workload(Strict):
    """What one iteration generates and trains.

    prompts: distinct prompts. samples_per_prompt: responses to each. prompt_tokens: mean length of a prompt;
    prompt_limit: longest prompt, for memory (absent: the mean). lengths: law of response lengths. drift: relative growth of
    the lengths per iteration, at_step: the iteration to plan for. group_correlation: of the lengths of two samples of one
    prompt (0 to 1). updates: optimizer steps that the samples are divided into.
    """

    prompts: Annotated[int, Field(ge=1, le=1_000_000)]
    samples_per_prompt: Annotated[int, Field(ge=1, le=10_000)] = 1
    prompt_tokens: Annotated[int, Field(ge=0, le=10_000_000)] = 512
    prompt_limit: Annotated[int, Field(ge=0, le=10_000_000)] | None = None
    lengths: LengthsInput
    drift: Annotated[float, Field(ge=-0.5, le=0.5)] = 0.0
    at_step: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    group_correlation: Annotated[float, Field(ge=0, le=1)] = 0.0
    updates: Annotated[int, Field(ge=1, le=10_000)] = 1

    @model_validator(mode="after")
    def _values_make_sense(self) -> Self:
        if self.prompts * self.samples_per_prompt > 1_000_000:
            raise refusal("has more than 1,000,000 samples per iteration", "lower `prompts` or `samples_per_prompt`")
        if self.prompt_limit is not None and self.prompt_limit < self.prompt_tokens:
            raise refusal("limits prompts below their mean", "raise `prompt_limit` or lower `prompt_tokens`")
        if not 1e-3 <= (growth := exp(min(700.0, max(-700.0, self.at_step * log1p(self.drift))))) <= 1e3:
            raise refusal(f"drifts to {growth:.3g} times the lengths", "choose `drift` and `at_step` that stay within 0.001 to 1000")
        if self.samples % self.updates:
            raise refusal(f"divides {self.samples} samples into {self.updates} updates", "choose `updates` that divides the samples")
        return self

    @property
    def samples(self) -> int:
        """Samples of one iteration."""
        return self.prompts * self.samples_per_prompt

    def law(self) -> QuantileLaw:
        """Return the law of response lengths at the iteration to plan for."""
        return self._law

    @cached_property
    def _law(self) -> QuantileLaw:
        return Drift(self.drift).at(self.lengths.law(), self.at_step)

    @cached_property
    def context_tokens(self) -> int:
        """Tokens of the longest possible sequence."""
        return (self.prompt_tokens if self.prompt_limit is None else self.prompt_limit) + int(self.law().limit_tokens)


class EngineSettings(Strict):
    """The inference engine.

    tp: tensor parallel degrees to consider (absent: all that fit). gpu_memory_utilization: share of a GPU that weights
    and KV cache may take. max_num_seqs: most sequences in a batch. ptl_s: measured seconds of one decode step by batch
    size, of one degree (absent: 1); wins over the reference. latency: the same as tables in batch and context, by tp;
    only these tp are considered. scale, overhead_s: calibration of the reference (absent: 1.07 dense, 1.2 mixture of
    experts; 5 ms). bound: which end of the interval for GPUs with estimates only. dispatch: `random`, or `lpt` with a
    length ranker.
    """

    tp: Degrees | None = None
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.9
    max_num_seqs: Annotated[int, Field(ge=1, le=100_000)] = 256
    ptl_s: StageTable | None = Field(default=None, alias="ptl")
    latency: Annotated[dict[GpuCount, LatencyTable], Field(min_length=1), WholeNumberKeys] | None = None
    scale: Annotated[float, Field(ge=0.1, le=10)] | None = None
    overhead_s: Seconds | None = Field(default=None, alias="overhead")
    bound: Literal["lo", "hi"] = "hi"
    dispatch: Literal["random", "lpt"] = "random"

    @model_validator(mode="after")
    def _one_latency(self) -> Self:
        if self.ptl_s is not None and self.latency is not None:
            raise refusal("gives `ptl` and `latency`", "keep one of the two")
        if (self.ptl_s is not None or self.latency is not None) and (self.scale is not None or self.overhead_s is not None):
            raise refusal("calibrates a latency that was measured", "leave `scale` and `overhead` out: they correct the reference")
        return self


class TrainerSettings(Strict):
    """The trainer.

    tp, pp, cp, ep: degrees to consider (absent: all that fit). sharding: `zero3` is FSDP, `zero1` Megatron's distributed
    optimizer. micro_batch: sequences of one forward and backward pass; log_prob_batch: of one pass without gradients
    (absent: the same). logit_copies: copies of the logits alive at the peak of the loss (plain PyTorch: 3 to 4).
    loss_chunk: tokens whose logits exist at once (absent: all). mfu: share of the peak speed (absent: reference). forward_scale:
    factor on the reference seconds of passes without gradients.
    old_logprob, reference: forward passes over all samples. critic: a critic of the same size is trained, too.
    optimizer_on_host, lora_rank: ways to save memory. overhead_s: seconds per update that no GPU speeds up.
    """

    tp: Degrees | None = None
    pp: Degrees | None = None
    cp: Degrees | None = None
    ep: Degrees | None = None
    sharding: Sharding = "zero3"
    micro_batch: Annotated[int, Field(ge=1, le=100_000)] = 1
    log_prob_batch: Annotated[int, Field(ge=1, le=100_000)] | None = None
    logit_copies: Annotated[float, Field(ge=0, le=100)] = 1.0
    checkpointing: Checkpointing = "full"
    mfu: Annotated[float, Field(gt=0, le=1)] | None = None
    forward_scale: Annotated[float, Field(ge=1e-3, le=1e3)] = 1.0
    old_logprob: bool = True
    reference: bool = True
    critic: bool = False
    optimizer_on_host: bool = False
    lora_rank: Annotated[int, Field(ge=1, le=65_536)] | None = None
    loss_chunk: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    overhead_s: Seconds = Field(default=0.0, alias="overhead")


class Interference(Strict):
    """Factors by which a stage is slower while the other one runs beside it."""

    rollout: Annotated[float, Field(ge=1, le=100)] = 1.0
    train: Annotated[float, Field(ge=1, le=100)] = 1.0
