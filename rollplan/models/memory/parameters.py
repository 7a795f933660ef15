"""How many parameters lie on one pipeline stage, and how many ways they are divided."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

from rollplan.models.architecture import Architecture
from rollplan.models.layout import Layout

Stage = Literal["whole", "first", "last"]


def stages(layout: Layout) -> tuple[Stage, ...]:
    """Return the pipeline stages that may be the fullest: the first holds most activations, the last the logits."""
    return ("whole",) if layout.pp == 1 else ("first", "last")


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters that tensor parallelism divides, and routed experts, which expert parallelism divides."""

    dense: float
    experts: float = 0.0


def stage_parameters(model: Architecture, layout: Layout, stage: Stage) -> Parameters:
    """Return what one stage holds: its layers, and the embedding table or the output head or both.

    Stages that do not divide the layers evenly hold one more. Tied tables exist twice when they lie on two stages.
    """
    if stage == "whole":
        return Parameters(_dense(model), model.expert_params_b * 1e9)
    layer, held = layer_parameters(model), stage_layers(model, layout)
    return Parameters(held * layer.dense + table_parameters(model, stage), held * layer.experts)


def layer_parameters(model: Architecture) -> Parameters:
    """Return what one layer holds, on average."""
    return Parameters((_dense(model) - table_parameters(model, "whole")) / model.layers, model.expert_params_b * 1e9 / model.layers)


def table_parameters(model: Architecture, stage: Stage) -> float:
    """Return the parameters of the embedding table and the output head, as far as the stage holds them."""
    return float(model.vocab * model.hidden * (1 if stage != "whole" or model.tied_embeddings else 2))


def stage_layers(model: Architecture, layout: Layout) -> int:
    """Return the layers of the longest stage."""
    return ceil(model.layers / layout.pp)


def adapter_parameters(model: Architecture, layout: Layout, rank: int) -> Parameters:
    """Return the trainable parameters of LoRA (Hu et al. 2022) on one stage: rank x (inputs + outputs) of each matrix.

    Adapters sit on the four attention matrices and the three of a gated feed-forward network; routed experts get none.
    """
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    attention = 2 * (model.hidden + query) + 2 * (model.hidden + key)
    feed_forward = 0 if model.moe else 3 * (model.hidden + model.intermediate)
    return Parameters(float(stage_layers(model, layout) * rank * (attention + feed_forward)))


def slices(layout: Layout) -> tuple[int, int]:
    """Return how many ways model parallelism divides a stage: dense parameters, routed experts.

    Experts are whole on their rank when there are at least as many expert as tensor ranks; fewer slice each of them.
    """
    return layout.tp, max(layout.tp, layout.ep)


def shards(layout: Layout) -> tuple[int, int]:
    """Return how many ranks hold the same slice, and so how many ways ZeRO divides it: dense parameters, routed experts."""
    dense, experts = slices(layout)
    ranks = layout.tp * layout.cp * layout.dp
    return ranks // dense, ranks // experts


def _dense(model: Architecture) -> float:
    return (model.params_b - model.expert_params_b) * 1e9
