"""Deals the samples of an iteration to the rollout nodes of a job: evenly, or the long tail on nodes of its own.

Source: StreamRL (arXiv 2504.15930) Algorithm 2 for the tail instances, 4.1 for longest first (LPT).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor

from rollplan.executor.core.runbook import Dispatch


def needs_estimates(dispatch: Dispatch) -> bool:
    """Return whether the deal depends on how long samples are expected to be."""
    return dispatch.order == "lpt" or dispatch.tail_instances > 0


def deal(
    samples: Sequence[int], nodes: Sequence[str], dispatch: Dispatch, estimates: Sequence[float] | None = None
) -> dict[str, tuple[int, ...]]:
    """Return the samples of each node, in the order in which they shall start; every sample on exactly one node.

    estimates: expected tokens of each sample, in the order of `samples`; None deals evenly, in the order given. Else the
    longest `tail_share` (rounded down) go to the last `tail_instances` nodes and the others to the other nodes, each class
    evenly; if one class were empty, everybody takes from both. Equal estimates keep their order. Raises `ValueError` if
    all nodes were tail instances, or if there is not one estimate per sample.
    """
    if not 0 <= dispatch.tail_instances < max(len(nodes), 1):
        raise ValueError(
            f"tail_instances must leave a regular instance, so be less than {len(nodes)} (rollout nodes), got {dispatch.tail_instances}"
        )
    if estimates is None:
        return _cards(samples, nodes)
    if len(estimates) != len(samples):
        raise ValueError(f"estimates must hold one value for each of {len(samples)} samples, got {len(estimates)}")
    longest = [sample for _, sample in sorted(zip(estimates, samples, strict=True), key=lambda pair: -pair[0])]
    regular, tail = _classes(nodes, dispatch)
    # A share that was a number of samples shall be that number again.
    cut = floor(dispatch.tail_share * len(longest) + 1e-9)
    separate = tail and 0 < cut < len(longest)
    dealt = {**_cards(longest[cut:], regular), **_cards(longest[:cut], tail)} if separate else _cards(longest, nodes)
    if dispatch.order == "lpt":
        return dealt
    place = {sample: index for index, sample in enumerate(samples)}
    return {node: tuple(sorted(share, key=place.__getitem__)) for node, share in dealt.items()}


def slots(nodes: Sequence[str], dispatch: Dispatch) -> Mapping[str, int]:
    """Return the most samples at once of each node."""
    regular, tail = _classes(nodes, dispatch)
    return {**dict.fromkeys(regular, dispatch.slots), **dict.fromkeys(tail, dispatch.tail_slots)}


def _classes(nodes: Sequence[str], dispatch: Dispatch) -> tuple[Sequence[str], Sequence[str]]:
    cut = len(nodes) - dispatch.tail_instances
    return nodes[:cut], nodes[cut:]


def _cards(samples: Sequence[int], nodes: Sequence[str]) -> dict[str, tuple[int, ...]]:
    return {node: tuple(samples[index :: len(nodes)]) for index, node in enumerate(nodes)}
