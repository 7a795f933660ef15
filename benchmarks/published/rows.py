"""The rows of the two data files in one form, and why a row cannot be predicted.

data/measured_splits.csv          splits and phase times of verl, NeMo-RL, slime, prime-rl and others
data/rl_step_times_measured.csv   step times with lengths; its runs that stand in the first file, too, are dropped here

What a run's own launch script says is added where the tables leave it out; `SCRIPTS` and `NEMO_NO_CHECKPOINTING` give the source.
Rows of one run that repeat the same setting (consecutive steps of a log) become one row with their median.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal

from rollplan.models.errors import InputError
from rollplan.models.reference.architectures import architecture_name
from rollplan.models.reference.gpus import gpu_name
from rollplan.models.split.problem import Way

DATA = Path(__file__).parent.parent / "data"
Binding = Literal["rollout", "train"]

MODELS = {
    "LLAMA3.1_8B": "Llama-3.1-8B",
    "Qwen3-30B3A": "Qwen3-30B-A3B",
    "Qwen3-235B": "Qwen3-235B-A22B",
    "DeepSeek-R1-Distill-Qwen-1.5B": "Qwen2.5-1.5B",
    "Qwen2.5-VL-7B": "Qwen2.5-7B",
    "Qwen2.5-7B-Instruct(ReTool SFT)": "Qwen2.5-7B",
}
"""Names in the files of models whose language part has the shape of a reference model."""

GPUS = {"GB200": "B200", "unstated (8x8 GPUs, RLinf H100 cluster)": "H100"}
"""GB200 has the kernels of B200 of decode steps; B200 is the same chip with 10 % less speed and memory."""

_SP4 = (1, 4, 1, 1)
_VERL: Mapping[str, Any] = {"kv": 0.8, "checkpointing": "full"}
SCRIPTS: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    # verl-project/verl, verl/experimental/fully_async_policy/shell (709c8dfb): dapo_7b_math_fsdp2_64_64.sh
    ("fully_async.md", "Qwen2.5-Math-7B", {**_VERL, "samples": 8192, "updates": 16, "limit": 28672, "gen_tp": 4, "train_layout": _SP4}),
    # the same, dapo_7b_async_retool.sh (418fb3ad): 64 prompts of 16 samples
    ("fully_async.md", "Qwen2.5-7B", {**_VERL, "samples": 1024, "updates": 4, "limit": 16384, "gen_tp": 4, "train_layout": _SP4}),
    # the same, grpo_30b_a3b_base_math_megatron_96_32.sh (709c8dfb)
    ("fully_async.md", "Qwen3-30B-A3B", {**_VERL, "samples": 8192, "updates": 4, "gen_tp": 4, "train_layout": (2, 2, 8, 1), "kv": 0.7}),
    # verl/experimental/one_step_off_policy/shell (05f879c1), dapo_7b_math_{fsdp2,megatron}_4_12.sh: 512 prompts of 12 samples
    ("one_step_off", "Qwen2.5-Math-7B", {**_VERL, "samples": 6144, "updates": 16, "gen_tp": 2}),
    ("#3531", "Qwen2.5-Math-7B", {**_VERL, "samples": 6144, "updates": 16, "gen_tp": 2}),
)
"""(part of the source, beginning of the model's name, what the launch script beside the published table says)."""

NEMO_NO_CHECKPOINTING = ("Qwen3-30B-A3B", "Qwen3-32B")
"""Models that NeMo-RL's recipes of v0.4 to v0.6 train without activation checkpointing (Llama-3.1-8B, Qwen3-235B: with).

NVIDIA-NeMo/RL, examples/configs/recipes/llm/performance at the tags v0.4.0, v0.5.0, v0.6.0. They also say: asynchronous
runs give half of the GPUs to generation, update weights in flight, and let the engine have 0.8 of a GPU; colocated engines
have 0.6 (examples/configs/grpo_math_1B.yaml).
"""

WAYS: Mapping[str, Way] = {"one_step_off": "one-step", "async_1off": "async-batch", "fully_async": "async-streamed"}
"""One-off of NeMo-RL is not one step of verl: its weights are updated in flight, and generation goes on."""

ASSUMED_MEAN = 1000.0
"""Of verl's runs on DAPO-Math-17k, which do not state it. The one line that does (async_flow, same model and data) says 1K."""
COLOCATED = ("colocate_sync", "sync_colocated")


@dataclass(frozen=True, slots=True)
class Row:
    """One run. Seconds are per step; `None` is what the source does not say.

    way: None where all GPUs take turns. gen_s: real generation. wait_s: of the trainer for samples. leftover_s: of the
    step, beside the listed phases. train_layout: (tp, cp, ep, pp). kv: share
    of a GPU that the engine may have. staleness: batches in flight beside the current one.
    group: rows with the same group are one experiment on different GPU counts. setting: what tells groups of one page
    apart. mode: as the source calls it.
    """

    framework: str
    model: str
    gpu: str
    mode: str
    way: Way | None
    rollout_gpus: int
    train_gpus: int
    step_s: float | None
    group: str
    setting: str = ""
    mean: float | None = None
    limit: float | None = None
    prompt_tokens: int = 512
    samples: int | None = None
    updates: int = 1
    gen_tp: int | None = None
    train_layout: tuple[int, int, int, int] | None = None
    kv: float | None = None
    checkpointing: str | None = None
    staleness: float = 1.0
    gen_s: float | None = None
    wait_s: float | None = None
    update_s: float | None = None
    old_logprob_s: float | None = None
    ref_s: float | None = None
    leftover_s: float | None = None
    fp8: bool = False
    listed: bool = False

    @property
    def colocated(self) -> bool:
        """Whether all GPUs do both stages in turn."""
        return self.mode in COLOCATED

    @property
    def total(self) -> int:
        """GPUs, each counted once."""
        return self.rollout_gpus if self.colocated else self.rollout_gpus + self.train_gpus

    @property
    def train_s(self) -> float | None:
        """All passes of the training side."""
        return None if self.update_s is None else self.update_s + (self.old_logprob_s or 0.0) + (self.ref_s or 0.0)

    @property
    def binds(self) -> Binding | None:
        """Which side the measurement says is the slower one; None where it does not say or the sides are within 10 %.

        With generation time, the longer of the two. Else the trainer's wait: under 10 % of the step training binds, over
        20 % rollout; between, neither is clear.
        """
        if self.gen_s is not None and self.train_s is not None:
            if max(self.gen_s, self.train_s) < 1.1 * min(self.gen_s, self.train_s):
                return None
            return "rollout" if self.gen_s > self.train_s else "train"
        if self.wait_s is not None and self.step_s is not None:
            share = self.wait_s / self.step_s
            return "train" if share < 0.1 else "rollout" if share > 0.2 else None
        return None

    def __str__(self) -> str:
        """Return one line's worth of identification."""
        gpus = str(self.rollout_gpus) if self.colocated else f"{self.rollout_gpus}:{self.train_gpus}"
        stale = f" {self.staleness:g}" if self.mode == "fully_async" else ""
        return f"{self.framework} {self.model[:24]} {self.gpu[:8]} {gpus} {self.mode}{stale} {self.setting}".rstrip()


def read() -> tuple[list[Row], dict[str, int]]:
    """Return all runs, and how many lines of the files are not runs of their own, by reason."""
    first = [_of_splits(raw) for raw in _lines("measured_splits.csv")]
    second = [_of_step_times(raw) for raw in _lines("rl_step_times_measured.csv")]
    known = {_run(row) for row in first}
    fresh = [row for row in second if _run(row) not in known]
    runs: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for index, row in enumerate([*first, *fresh]):
        runs[(row.group, row.mode, row.model, row.rollout_gpus, row.train_gpus) if row.listed else (index,)].append(row)
    merged = [_median(rows) for rows in runs.values()]
    return merged, {
        "the same run stands in the other file": len(second) - len(fresh),
        "another step of the same log (the median is taken)": len(first) + len(fresh) - len(merged),
    }


def unpredictable(row: Row) -> str | None:
    """Return why reference data alone cannot predict a row; None if they can."""
    if (reason := unusable(row)) is not None:
        return reason
    if row.mean is None or row.limit is None:
        return "the mean length of responses is not stated"
    return "the samples per step are not stated" if row.samples is None else None


def unusable(row: Row) -> str | None:
    """Return why a row cannot be compared at all, whatever else is known; None if it can."""
    if row.step_s is None:
        return "no step time (weight sync, single phases, shares)"
    if row.rollout_gpus == 0 and row.train_gpus > 0:
        return "training alone"
    if row.gpu in ("", "n/a"):
        return "the GPU is not stated"
    if row.rollout_gpus == 0:
        return "the number of GPUs, or the split, is not stated"
    if row.fp8:
        return "FP8: the reference is bf16"
    try:
        gpu_name(GPUS.get(row.gpu, row.gpu))
    except InputError:
        return f"the GPU is not in the reference data ({row.gpu[:28]})"
    try:
        architecture_name(MODELS.get(row.model, row.model))
    except InputError:
        return f"the model is not in the reference data ({row.model})"
    if not (row.colocated or row.way):
        return f"the way of overlap has no counterpart ({row.mode})"
    return None


def stated(value: float | None) -> float:
    """Return a value of a row that its table has; raise `ValueError` if it does not."""
    if value is None:
        raise ValueError("the row does not state this value, which what is asked of it needs")
    return value


def _lines(name: str) -> Iterator[Mapping[str, str]]:
    with (DATA / name).open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def _of_splits(raw: Mapping[str, str]) -> Row:
    """Return a line of measured_splits.csv."""
    other = dict(part.split("=", 1) for part in raw["other"].split(";") if "=" in part)
    text = raw["other"] + raw["notes"]
    mode = "fully_async_stream_only" if raw["mode"].endswith("stream_only") else re.sub(r"_(staleness|require_batches).*", "", raw["mode"])
    stale = re.search(r"staleness=([\d.]+)", text)
    samples, train_batch = other.get("gen_gbs"), other.get("train_gbs")
    listed = re.search(r"batch 512 n=5 resp_max=(\d+)", text)
    release = other.get("release", "")
    setting = other.get("engine", "") + other.get("resp_max", "") + (other.get("cfg", "")[:4]) + release
    row = Row(
        framework=raw["framework"] + (f" {release}" if release else ""),
        model=raw["model"],
        gpu=raw["gpu"].removesuffix(" 80GB"),
        mode=mode,
        way="mini-batch" if mode.endswith("stream_only") else WAYS.get(mode),
        rollout_gpus=_count(raw["rollout_gpus"]),
        train_gpus=_count(raw["train_gpus"]),
        step_s=_seconds(raw["step_s"]),
        setting=other.get("engine", ""),
        # NeMo-RL's rows of one model, GPU and release; elsewhere one source and setting.
        group=f"{raw['framework']} {setting} {raw['model']} {raw['gpu']}" + ("" if release else f" {raw['source']}"),
        mean=_seconds(other.get("avg_seq_len") or other.get("resp_mean")),
        limit=_seconds(other.get("max_seq") or (listed[1] if listed else other.get("resp_max"))),
        prompt_tokens=0 if "avg_seq_len" in other else round(float(other.get("prompt_mean") or 512)),
        samples=int(samples) if samples else 2560 if listed else None,
        updates=int(samples) // int(train_batch) if samples and train_batch else 1,
        gen_tp=int(other["gen_tp_pp"].split("/")[0]) if "gen_tp_pp" in other else None,
        train_layout=_layout(other["train_tp_cp_ep_pp"].split("/")) if "train_tp_cp_ep_pp" in other else None,
        staleness=float(stale[1]) if stale else 1.0,
        gen_s=_seconds(other.get("generate_sequences_s") or raw["gen_s"]),
        wait_s=_seconds(other.get("trainer_wait_s")),
        update_s=_seconds(raw["train_s"]),
        old_logprob_s=_seconds(other.get("old_log_prob_s")),
        ref_s=_seconds(other.get("ref_s")),
        fp8="FP8" in other.get("alg", ""),
        listed="log_step" in other,
    )
    return _with_script(row, raw["source"])


def _of_step_times(raw: Mapping[str, str]) -> Row:
    """Return a line of rl_step_times_measured.csv."""
    colocated = raw["mode"].startswith(("sync", "colocate sync"))
    nemo = raw["framework_version"].startswith("NeMo")
    total = int(raw["n_gpus"])
    mode = ("sync_colocated" if nemo else "colocate_sync") if colocated else "async_1off" if nemo else raw["mode"].split()[0]
    rollout, train = (total, total) if colocated else (_count(raw["n_rollout_gpus"]), _count(raw["n_train_gpus"]))
    if nemo and not colocated:
        rollout = train = total // 2
    samples = int(raw["n_samples_per_step"]) if raw["n_samples_per_step"] else None
    # TP, CP, EP, PP, VPP; Llama's lines have two more, all 1.
    degrees = raw["train_parallel"].partition("=")[2].strip("[]").split(",")
    stale = re.search(r"staleness ([\d.]+)", raw["mode"])
    row = Row(
        framework=raw["framework_version"] if nemo else raw["framework_version"].split()[0],
        model=raw["model"].removesuffix("-Base"),
        gpu=raw["gpu"],
        mode=mode,
        way=None if colocated else WAYS.get(mode),
        rollout_gpus=rollout,
        train_gpus=train,
        step_s=_seconds(raw["t_step_s"]),
        group=f"{raw['framework_version']} {raw['algorithm']} {raw['model']} {raw['gpu']} {raw['source']}",
        mean=_seconds(raw["mean_resp_or_seq_len"]),
        limit=_seconds(raw["max_len"]),
        prompt_tokens=0 if nemo else 512,
        samples=samples,
        updates=samples // int(raw["train_batch"]) if samples and raw["train_batch"] else 1,
        gen_tp=int(found[1]) if (found := re.search(r"TP(?:,PP=\[)?(\d+)", raw["gen_parallel"])) else None,
        train_layout=_layout([*degrees[:3], degrees[-2]]) if len(degrees) > 3 else None,
        staleness=float(stale[1]) if stale else 1.0,
        gen_s=_seconds(raw["t_gen_s"]) if colocated else None,
        wait_s=_seconds(raw["t_wait_gen_s"]) if colocated else _seconds(raw["t_gen_s"]),
        update_s=_seconds(raw["t_update_s"]),
        old_logprob_s=_seconds(raw["t_old_logprob_s"]),
        ref_s=_seconds(raw["t_ref_s"]),
        fp8=raw["precision"] == "FP8",
    )
    if nemo:
        # Same words as in the other file, so that runs of one release meet.
        name = MODELS.get(row.model, row.model)
        row = replace(row, framework=f"NeMo-RL {row.framework.split()[1]}", model=name)
    return _with_script(row, raw["source"])


def _run(row: Row) -> tuple[str, int, int]:
    """Return what identifies a run in both files: model, GPUs, and the step time in whole seconds."""
    name = MODELS.get(row.model, row.model).replace(" ", "-")
    return name, row.total, round(row.step_s or 0.0)


def _with_script(row: Row, source: str) -> Row:
    """Return a row with what its launch script says and the table does not, with its group and leftover."""
    if row.framework.startswith("NeMo-RL"):
        row = replace(
            row,
            group=f"{row.framework} {row.model} {row.gpu}",
            kv=0.6 if row.colocated else 0.8,
            checkpointing="none" if row.model in NEMO_NO_CHECKPOINTING else "full",
        )
    for place, model, stated in SCRIPTS:
        if place in source and row.model.startswith(model):
            row = replace(row, **{key: value for key, value in stated.items() if getattr(row, key) in (None, 1)})
            break
    waited = row.gen_s if row.colocated else row.wait_s
    if row.step_s is not None and row.train_s is not None and waited is not None:
        row = replace(row, leftover_s=row.step_s - row.train_s - waited)
    return row


def _median(rows: list[Row]) -> Row:
    seconds = ("step_s", "gen_s", "update_s", "old_logprob_s", "ref_s", "mean", "leftover_s")
    values = {name: [value for row in rows if (value := getattr(row, name)) is not None] for name in seconds}
    return replace(rows[0], **{name: median(found) for name, found in values.items() if found})


def _layout(degrees: Iterable[str]) -> tuple[int, int, int, int]:
    tp, cp, ep, pp = (int(degree) for degree in degrees)
    return tp, cp, ep, pp


def _count(text: str) -> int:
    return int(text) if text else 0


def _seconds(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
