"""GPUs of each side where a framework does not write them as a product of keys: strings, rank lists, what is left over."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rollplan.models.launch.settings import FrameworkName, LaunchSettings, SettingName
from rollplan.models.launch.write import Value, Written


def areal_rollout(want: LaunchSettings) -> str | None:
    """Return `sglang:d8t2p1`; None if the engine is not known or the GPUs are not whole engines."""
    unit = want.rollout_unit or 1
    if want.rollout_engine is None or want.rollout_gpus is None or want.rollout_gpus % unit:
        return None
    return f"{want.rollout_engine}:d{want.rollout_gpus // unit}t{want.rollout_tp or 1}p{want.rollout_pp or 1}"


def areal_train(want: LaunchSettings) -> str | None:
    """Return `fsdp:d16` with the degrees above 1; None if the trainer is not known or the GPUs are not whole copies."""
    unit = want.train_unit or 1
    if want.sharding is None or want.train_gpus is None or want.train_gpus % unit:
        return None
    degrees = (("t", want.train_tp), ("p", want.train_pp), ("c", want.train_cp), ("e", want.train_ep))
    rest = "".join(f"{letter}{degree}" for letter, degree in degrees if degree is not None and degree > 1)
    return f"{want.sharding}:d{want.train_gpus // unit}{rest}"


def _areal(want: LaunchSettings, key: str, backend: Callable[[LaunchSettings], str | None]) -> Written | None:
    if want.dialect is not None and want.dialect.startswith("allocation_mode"):
        return areal_allocation(want)
    text = backend(want)
    return None if text is None else Written({key: text})


def areal_allocation(want: LaunchSettings) -> Written | None:
    """Return both sides in one string; sides that share their GPUs need names."""
    rollout, train = areal_rollout(want), areal_train(want)
    if rollout is None or train is None:
        return None
    if want.placement == "colocated":
        return Written({"allocation_mode": f"{rollout.replace(':', '[rollout]:')}|{train.replace(':', '[actor]:')}"})
    return Written({"allocation_mode": f"{rollout}+{train}"})


def roll_mapping(want: LaunchSettings, rollout: bool) -> Written | None:
    """Return training on the first ranks and rollout on the last ones of all, so that either may change alone."""
    gpus, total = want.rollout_gpus if rollout else want.train_gpus, want.total_gpus
    if gpus is None:
        return None
    if rollout and want.placement != "colocated":
        return None if total is None else Written({"actor_infer.device_mapping": f"list(range({total - gpus},{total}))"})
    if rollout:
        return Written({"actor_infer.device_mapping": f"list(range(0,{gpus}))"})
    return Written({"actor_train.device_mapping": f"list(range(0,{gpus}))", "reference.device_mapping": f"list(range(0,{gpus}))"})


def nemo_sides(want: LaunchSettings) -> Written | None:
    """Return cluster and generation resources: training gets what is left, in whole nodes if there are several."""
    node, total = want.gpus_per_node or 8, want.total_gpus
    if want.rollout_gpus is None or want.train_gpus is None or total is None:
        return None
    if total <= node:
        cluster: dict[str, Value] = {"cluster.num_nodes": 1, "cluster.gpus_per_node": total}
    elif total % node == 0:
        cluster = {"cluster.num_nodes": total // node, "cluster.gpus_per_node": node}
    else:
        return None
    if want.placement == "colocated":
        return Written(cluster)
    where = "policy.generation.colocated.resources"
    if total <= node:
        return Written({**cluster, f"{where}.num_nodes": 1, f"{where}.gpus_per_node": want.rollout_gpus})
    if want.rollout_gpus % node:
        return None
    return Written({**cluster, f"{where}.num_nodes": want.rollout_gpus // node, f"{where}.gpus_per_node": node})


def _prime(want: LaunchSettings, side: str, gpus: int | None) -> Written | None:
    """Return GPUs on a single node, whole nodes beyond it."""
    node, total = want.gpus_per_node or 8, want.total_gpus
    if gpus is None:
        return None
    if total is not None and total <= node:
        return Written({f"deployment.num_{side}_gpus": gpus})
    if gpus % node:
        return None
    replicas: dict[str, Value] = {"deployment.num_infer_replicas": 1} if side == "infer" else {}
    return Written({"deployment.type": '"multi_node"', f"deployment.num_{side}_nodes": gpus // node, **replicas})


def trl_rollout(want: LaunchSettings) -> Written | None:
    """Return the server's degrees; a server that repeats its engine (mixture of experts) keeps their size."""
    gpus, size = want.rollout_gpus, want.rollout_tp or 1
    if gpus is None or want.placement == "colocated":
        return None
    if (want.rollout_dp or 1) > 1:
        return None if gpus % size else Written({"--tensor-parallel-size": size, "--data-parallel-size": gpus // size})
    return Written({"--tensor-parallel-size": gpus})


def _learners(want: LaunchSettings) -> Written | None:
    """Return one number per learner node, full ones first."""
    gpus, node = want.train_gpus or 1, want.gpus_per_node or 8
    sizes = [node] * (gpus // node) + ([gpus % node] if gpus % node else [])
    return Written({"--num_learners_per_node": " ".join(str(size) for size in sizes)})


def _trl_tp(want: LaunchSettings) -> Written | None:
    key = "--vllm_tensor_parallel_size" if want.placement == "colocated" else "--tensor-parallel-size"
    return Written({key: want.rollout_tp or 1})


LAYOUTS: Mapping[tuple[FrameworkName, SettingName], Callable[[LaunchSettings], Written | None]] = {
    ("AReaL", "rollout_gpus"): lambda want: _areal(want, "rollout.backend", areal_rollout),
    ("AReaL", "rollout_tp"): lambda want: _areal(want, "rollout.backend", areal_rollout),
    ("AReaL", "train_gpus"): lambda want: _areal(want, "actor.backend", areal_train),
    ("ROLL", "rollout_gpus"): lambda want: roll_mapping(want, rollout=True),
    ("ROLL", "train_gpus"): lambda want: roll_mapping(want, rollout=False),
    ("NeMo-RL", "rollout_gpus"): nemo_sides,
    ("NeMo-RL", "train_gpus"): nemo_sides,
    ("prime-rl", "rollout_gpus"): lambda want: _prime(want, "infer", want.rollout_gpus),
    ("prime-rl", "train_gpus"): lambda want: _prime(want, "train", want.train_gpus),
    ("TRL", "rollout_gpus"): trl_rollout,
    ("TRL", "rollout_tp"): _trl_tp,
    ("open-instruct", "train_gpus"): _learners,
}
