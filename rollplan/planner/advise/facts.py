"""What a log does not say and its owner knows: GPUs of each side, placement, staleness, model, price."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from rollplan.models.errors import InputError
from rollplan.models.launch import LaunchSettings, Placement
from rollplan.models.reference.architectures import architecture


@dataclass(frozen=True, slots=True)
class Facts:
    """All optional. rollout_gpus, train_gpus: of the run; equal and the same ones if colocated.

    staleness: by how many versions weights may be older. rollout_unit, train_unit: GPUs that can only be used together
    (one engine, one copy of the model). samples_per_update: responses that data parallel ranks divide; samples_per_step: of
    one step. model, gpu: names of the reference data. price_per_gpu_h: dollars. settings: the launch configuration, for
    lines in its own words.
    """

    placement: Placement | None = None
    rollout_gpus: int | None = None
    train_gpus: int | None = None
    gpus_per_node: int = 8
    staleness: float | None = None
    rollout_unit: int | None = None
    train_unit: int | None = None
    samples_per_update: int | None = None
    samples_per_step: int | None = None
    response_limit: int | None = None
    model: str | None = None
    gpu: str | None = None
    price_per_gpu_h: float | None = None
    settings: LaunchSettings | None = None
    warnings: tuple[str, ...] = ()


def facts_of(settings: LaunchSettings) -> Facts:
    """Return what a launch configuration tells."""
    model = None
    with suppress(InputError):
        model = None if settings.model_name is None else architecture(settings.model_name).name
    prompts, samples = settings.prompts_per_step, settings.samples_per_prompt
    return Facts(
        placement=settings.placement,
        rollout_gpus=settings.rollout_gpus,
        train_gpus=settings.train_gpus,
        gpus_per_node=settings.gpus_per_node or 8,
        staleness=None if settings.asynchronous is False else settings.staleness,
        rollout_unit=settings.rollout_unit,
        train_unit=settings.train_unit,
        samples_per_update=settings.samples_per_update,
        samples_per_step=None if prompts is None or samples is None else prompts * samples,
        response_limit=settings.response_limit,
        model=model,
        settings=settings,
        warnings=settings.warnings,
    )


def facts(settings: LaunchSettings | None, own: Facts) -> Facts:
    """Return the facts of a configuration, if there is one, with what the user says himself over them."""
    if settings is None:
        return own
    unsaid = Facts()
    said = {name: value for name in Facts.__slots__ if (value := getattr(own, name)) != getattr(unsaid, name)}
    return replace(facts_of(settings), **said)
