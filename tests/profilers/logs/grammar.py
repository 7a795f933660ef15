"""Writes logs from numbers, one writer for each grammar of each framework, so that tests know the right answer.

The grammars were written down from the frameworks' sources, apart from the readers; no line of a real log is in here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Truth:
    """One step. phases: seconds by canonical name. gap: seconds of the step that are in no phase."""

    step: int
    phases: Mapping[str, float]
    gap: float = 0.0
    response: float = 400.0

    @property
    def step_s(self) -> float:
        return sum(self.phases.values()) + self.gap


Write = Callable[[Sequence[Truth]], str]


@dataclass(frozen=True)
class Grammar:
    """A way in which a framework writes. phases: those that it can tell apart. gaps: whether its total covers more.

    digits: relative precision of what is printed. first: number of its first step. drawn: parts of what is read that the
    file does not hold (steps whose total comes late).
    """

    name: str
    framework: str
    mode: str
    phases: tuple[str, ...]
    write: Write
    gaps: bool = True
    precision: float = 1e-3
    first: int = 1
    responses: bool = True
    total: str = "stated"
    beside: Mapping[str, float] = field(default_factory=dict)


def verl(keys: Mapping[str, str], prefix: str = "timing_s/", number: str = "{:.3f}", step: bool = True, extra: str = "") -> Write:
    """Return a writer of console lines; keys: verl's timer of every phase."""

    def write(steps: Sequence[Truth]) -> str:
        lines = []
        for truth in steps:
            cells = {f"{prefix}{keys[name]}": time for name, time in truth.phases.items()}
            if step:
                cells |= {f"{prefix}step": truth.step_s, "perf/time_per_step": truth.step_s}
            cells |= {"response_length/mean": truth.response, "actor/lr": 1e-6}
            shown = " - ".join(f"{key}:{number.format(value)}" for key, value in cells.items())
            lines.append(f"step:{truth.step} - {shown}{extra}\n")
        return "".join(lines)

    return write


def verl_file(steps: Sequence[Truth]) -> str:
    rows = []
    for truth in steps:
        times = {f"timing_s/{VERL[name]}": time for name, time in truth.phases.items()} | {"timing_s/step": truth.step_s}
        rows.append(json.dumps({"step": truth.step, "data": {**times, "response_length/mean": truth.response}}))
    return "\n".join(rows) + "\n"


def verl_fully_async(steps: Sequence[Truth]) -> str:
    """Three lines per version: the rollouter's counters, the aggregate of the cycle, and the sync by itself."""
    lines = []
    for truth in steps:
        times = {VERL_ASYNC[name]: time for name, time in truth.phases.items() if name != "sync"}
        cells = {f"timing_s/{key}": time for key, time in times.items()}
        cells |= {"timing_s/timing_s/param_sync": truth.phases["sync"], "timing_s/step": truth.step_s}
        cells |= {"fully_async/trainer/idle_ratio": truth.phases["wait"] / truth.step_s, "response_length/mean": truth.response}
        shown = " - ".join(f"{key}:np.float64({value!r})" for key, value in cells.items())
        lines += [
            f"step:{truth.step} - fully_async/rollouter/active_time:12.0 - fully_async/rollouter/idle_ratio:0.1",
            f"step:{truth.step} - {shown}",
        ]
    return "\n".join(lines) + "\n"


def openrlhf(sync: bool) -> Write:
    keys = {"generation": "generation", "logprobs": "make_experience", "update": "ppo_train", "sync": "broadcast"}

    def write(steps: Sequence[Truth]) -> str:
        lines = []
        for truth in steps:
            status = {"policy_loss": -0.01} | {f"timing/{keys[name]}": time for name, time in truth.phases.items()}
            status |= {} if sync else {"timing/generation": 123.0}
            status |= {"timing/step_total": truth.step_s, "response_length": truth.response}
            lines.append(f"INFO 01-01 00:00:00 ppo_trainer.py:1] {'✨ ' if sync else ''}Global step {truth.step}: {status}\n")
        return "".join(lines)

    return write


def slime(total: str, colocated: bool) -> Write:
    keys = {"data": "data_preprocess", "reference": "ref_log_probs", "old_logprob": "log_probs", "update": "actor_train"}
    outside = {"sync": "update_weights"} | ({"switch": "sleep"} if colocated else {})

    def write(steps: Sequence[Truth]) -> str:
        lines = []
        for truth in steps:
            wait = truth.phases["generation" if colocated else "wait"]
            inside = {f"perf/{key}_time": truth.phases[name] for name, key in keys.items()}
            train = {f"perf/{key}_time": truth.phases[name] for name, key in outside.items()}
            train |= {"perf/train_wait_time": wait, **inside, "perf/train_time": sum(inside.values()) + truth.gap}
            train |= {f"perf/{total}": train["perf/train_wait_time"] + train["perf/train_time"]}
            rollout = {"drop_rate": 0.1, "rollout/response_len/mean": truth.response, "perf/rollout_time": wait if colocated else 4 * wait}
            head = "[2026-01-01 00:00:00] metric.py:1 - perf"
            lines += [f"{head} {truth.step}: {rollout}", f"{head} {truth.step}: {train}"]
        return "\n".join(lines) + "\n"

    return write


def slime_timers(steps: Sequence[Truth]) -> str:
    keys = {"wait": "train_wait", "old_logprob": "log_probs", "update": "actor_train", "sync": "update_weights"}
    return "".join(f"Timer {keys[name]} end (elapsed: {truth.phases[name]:.2f}s)\n" for truth in steps for name in keys)


def areal(staleness: int | None) -> Write:
    keys = {"old_logprob": "recompute_logp", "reference": "ref_logp", "advantage": "compute_advantage", "update": "train_step"}
    keys |= {"sync": "update_weights", "generation": "rollout", "wait": "rollout"}

    def write(steps: Sequence[Truth]) -> str:
        lines = [] if staleness is None else [f"    max_head_offpolicyness: {staleness}"]
        for truth in steps:
            cells = [(f"timeperf/{keys[name]}", time) for name, time in truth.phases.items()]
            cells += [("ppo_actor/seq_len", truth.response + 100), ("ppo_actor/loss", 0.1)]
            height = -(-len(cells) // 4)
            columns = [cells[start : start + height] for start in range(0, len(cells), height)]
            lines += [f"20260101-00:00:00.000 StatsLogger INFO: Epoch 1/9 Step {truth.step}/99 Train step {truth.step}/99 done."]
            lines += ["20260101-00:00:00.000 StatsLogger INFO: Stats (1/1):", "INFO: ", "╒══════╤══════╕"]
            for row in range(height):
                pairs = [column[row] for column in columns if row < len(column)]
                lines.append("│ " + " │ ".join(f"{key:30} │ {value:.4e}" for key, value in pairs) + " │")
            lines.append("╘══════╧══════╛")
        return "\n".join(lines) + "\n"

    return write


def roll(agentic: bool, tagged: bool) -> Write:
    generate = "time/step_rollout" if agentic else "time/step_generate"
    keys = {"wait": generate, "sync": "time/step_model_update", "update": "time/step_train"}
    keys |= {"logprobs": "time/step_ref_log_probs_values_reward"} if agentic else {"old_logprob": "time/old_log_probs"}

    def write(steps: Sequence[Truth]) -> str:
        lines, before = ["async_generation_ratio: 1"], 0.0
        for truth in steps:
            metrics = {keys[name]: time for name, time in truth.phases.items()}
            metrics |= {"time/step_total": truth.step_s if agentic else before, "tokens/response_length/mean": truth.response}
            metrics |= {"system/tps": 1600.0, "system/tps_gpu": 100.0}
            before = truth.step_s
            text = f"metrics_tag: {json.dumps({'step': truth.step, 'metrics': metrics})}" if tagged else json.dumps(metrics)
            lines += [f"[INFO] pipeline step {truth.step} start...", f"[2026-01-01] [pipeline.py (1)] [INFO] {text}"]
        return "\n".join(lines) + "\n"

    return write


def nemo(sync: bool) -> Write:
    keys = {"update": "policy_training", "logprobs": "policy_and_reference_logprobs", "data": "data_processing"}
    keys |= {"generation": "generation"} if sync else {"wait": "exposed_generation", "sync": "weight_sync"}

    def write(steps: Sequence[Truth]) -> str:
        lines = []
        for truth in steps:
            lines += [f"{'=' * 25} Step {truth.step}/100 {'=' * 25}", "", "📊 Training Results:", "  • Loss: 0.1032"]
            lines += [f"  • Mean Generation Length: {truth.response:.4f}"]
            lines += [] if sync else ["  • Buffer Size: 64", "  • Avg Trajectory Age: 1.00 steps"]
            lines += ["", "⏱️  Timing:", f"  • Total step time: {truth.step_s:.2f}s"]
            for name, time in sorted(truth.phases.items(), key=lambda item: -item[1]):
                lines.append(f"  • {keys[name]}: {time:.2f}s ({100 * time / truth.step_s:.1f}%)")
            lines += ["🔍 Performance Metrics:", "    - E2E (Tokens/sec/gpu): 100.00", "    - E2E (Tokens/sec): 1600.00"]
        return "\n".join(lines) + "\n"

    return write


def mixed_units(time: float) -> str:
    """Return seconds as prime-rl prints them."""
    if time >= 3600:
        return f"{time // 3600:.0f}h {time % 3600 // 60:.0f}m"
    return f"{time // 60:.0f}m {time % 60 // 1:.0f}s" if time >= 60 else f"{time:.1f}s" if time >= 1 else f"{1e3 * time:.0f}ms"


def prime_console(old: bool) -> Write:
    def write(steps: Sequence[Truth]) -> str:
        lines = []
        for truth in steps:
            if old:
                tail = "Loss: 12.2500 | LR: 1.00e-06 | Throughput: 3324 tokens/s | MFU: 1.0% | Peak Mem.: 5.1/23.7 GiB (21.4%)"
                lines.append(f"00:00:00 SUCCESS Step {truth.step} | Time: {truth.step_s:.2f}s | {tail}")
                tail = f"Reward: 0.3 | Throughput: 9.0 tokens/s | Seq. Length: {truth.response:.1f} tokens/sample | Async Level: 1"
                lines.append(f"00:00:00 SUCCESS Step {truth.step} | Time: 73.77s | {tail} | Max. Off-Policy Level: 0")
            else:
                tail = "Loss 0.1 | Entropy 0.2 | LR 1.00e-06 | Throughput 3324 tokens/s | MFU 1.0% | Peak Mem. 5.1 GiB"
                lines.append(f"SUCCESS Step {truth.step} | {mixed_units(truth.step_s):>7} | {tail}")
                lines.append(f"SUCCESS Step {truth.step} | {'1m 13s':>7} | Reward 0.3 | Trainable 60/64 (93.8%) | Turns 1.0 | Error 0.0%")
        return "\n".join(lines) + "\n"

    return write


def prime_file(steps: Sequence[Truth]) -> str:
    keys = {"wait": "wait_for_batch", "data": "load_data", "sync": "broadcast_weights", "update": "forward_backward"}
    rows: list[dict[str, float]] = []
    for truth in steps:
        times = {f"time/{keys[name]}": time for name, time in truth.phases.items()} | {"time/step": truth.step_s, "time/save_ckpt": 0}
        rows.append({"step": truth.step, "time": 1.7e9, "perf/throughput": 1600.0, "perf/throughput_per_gpu": 200.0, "perf/mfu": 40.0})
        rows.append({"step": truth.step, "time": 1.7e9, **times})
    return "".join(json.dumps(row) + "\n" for row in rows)


SKYRL = {"generation": "generate", "wait": "wait_for_generation_buffer", "data": "convert_to_training_input", "sync": "sync_weights"}
SKYRL |= {"logprobs": "fwd_logprobs_values_reward", "advantage": "compute_advantages_and_returns", "update": "policy_train"}


def skyrl_dict(steps: Sequence[Truth]) -> str:
    lines = []
    for truth in steps:
        times = {f"timing/{SKYRL[name]}": f"{time:.4f}" for name, time in truth.phases.items()}
        values = {**times, "generate/avg_num_tokens": f"{truth.response:.4f}", "timing/step": f"{truth.step_s:.4f}"}
        rows = [f"{key!r}: {value!r}" for key, value in values.items()]
        lines += [f"Step {truth.step}:", "{" + rows[0] + ",", *(f" {row}," for row in rows[1:-1]), f" {rows[-1]}}}"]
    return "\n".join(lines) + "\n"


def skyrl_timers(steps: Sequence[Truth]) -> str:
    lines = []
    for truth in steps:
        train = [("train_critic_and_policy", truth.phases["update"])]
        for name, time in [*((SKYRL[name], time) for name, time in truth.phases.items()), *train, ("step", truth.step_s)]:
            lines.append(f"2026-01-01 00:00:00.000 | INFO     | skyrl:f:1 - Finished: '{name}', time cost: {time:.2f}s")
    return "\n".join(lines) + "\n"


def trl(steps: Sequence[Truth]) -> str:
    rows = []
    for truth in steps:
        row = {"loss": 0.01, "num_tokens": 1000.0 * truth.step, "completions/mean_length": truth.response, "reward": 0.5}
        rows.append(str({**row, "step_time": truth.step_s, "epoch": truth.step / 100}))
    return "\n".join(rows) + "\n"


def open_instruct(width: int) -> Write:
    keys = {"wait": "trainer_waiting_for_data", "update": "training", "sync": "weight_sync", "other": "health_check"}

    def write(steps: Sequence[Truth]) -> str:
        lines = []
        for truth in steps:
            times = [f"total: {truth.step_s:.2f}", *(f"{keys[name]}: {time:.2f}" for name, time in truth.phases.items())]
            rows = [
                ("other", f"training_step: {truth.step}"),
                ("time", " | ".join(times)),
                ("val", f"sequence_lengths: {truth.response:.2f}"),
            ]
            lines.append("╭" + " Metrics ".center(width - 2, "─") + "╮")
            for group, text in rows:
                shown = [""]
                for word in text.split(" "):
                    fits = len(shown[-1]) + len(word) < width - 14
                    shown = [*shown[:-1], f"{shown[-1]} {word}".strip()] if fits else [*shown, word]
                lines += [f"│ {label:6}  {part}".ljust(width - 2) + " │" for label, part in zip([group, *[""] * 9], shown, strict=False)]
            lines.append("╰" + "─" * (width - 2) + "╯")
        return "\n".join(lines) + "\n"

    return write


VERL = {"generation": "gen", "reward": "reward", "old_logprob": "old_log_prob", "reference": "ref", "advantage": "adv"}
VERL |= {"update": "update_actor", "critic_update": "update_critic", "values": "values", "sync": "update_weights"}
VERL_ASYNC = {**VERL, "wait": "gen"}
ONE_STEP = {**VERL_ASYNC, "sync": "sync_rollout_weights"}
SYNC = tuple(VERL)
ASYNC = ("wait", "reference", "update", "sync")
SLIME = ("data", "reference", "old_logprob", "update", "sync")
AREAL = ("old_logprob", "reference", "advantage", "update", "sync")
V1 = " - separate_async/switch/idle:0.0"

GRAMMARS = (
    Grammar("verl console 2024", "verl", "sync", SYNC[:6], verl(VERL, "timing/", step=False), gaps=False, first=0, total="summed"),
    Grammar("verl console 2025", "verl", "sync", SYNC, verl(VERL)),
    Grammar("verl console numpy 2", "verl", "sync", SYNC, verl(VERL, number="np.float64({!r})")),
    Grammar("verl file", "verl", "sync", SYNC, verl_file),
    Grammar("verl fully async", "verl", "async", ASYNC, verl_fully_async),
    Grammar("verl one step off", "verl", "async", ASYNC, verl(ONE_STEP)),
    Grammar("verl V1 separate async", "verl", "async", ASYNC, verl(VERL_ASYNC, extra=V1)),
    Grammar("OpenRLHF sync", "OpenRLHF", "sync", ("generation", "logprobs", "update", "sync"), openrlhf(sync=True), gaps=False),
    Grammar("OpenRLHF async", "OpenRLHF", "async", ("logprobs", "update", "sync"), openrlhf(sync=False), beside={"generation": 123.0}),
    Grammar("slime colocated", "slime", "sync", ("generation", *SLIME, "switch"), slime("step_time", True), total="stated and mended"),
    Grammar("slime async", "slime", "async", ("wait", *SLIME), slime("step_time", False), first=0, total="stated and mended"),
    Grammar("slime 2025", "slime", "async", ("wait", *SLIME), slime("total_train_time", False), first=0, total="stated and mended"),
    Grammar("slime timers", "slime", "unknown", ("wait", "old_logprob", "update", "sync"), slime_timers, False, 1e-3, 0, False, "summed"),
    Grammar("AReaL async", "AReaL", "async", ("wait", *AREAL), areal(4), gaps=False, responses=False, total="summed"),
    Grammar("AReaL sync", "AReaL", "sync", ("generation", *AREAL), areal(0), gaps=False, responses=False, total="summed"),
    Grammar("AReaL alone", "AReaL", "unknown", ("wait", *AREAL), areal(None), gaps=False, responses=False, total="summed"),
    Grammar("ROLL RLVR", "ROLL", "async", ("wait", "sync", "old_logprob", "update"), roll(False, True)),
    Grammar("ROLL RLVR bare", "ROLL", "async", ("wait", "sync", "old_logprob", "update"), roll(False, False), first=0),
    Grammar("ROLL agentic", "ROLL", "async", ("wait", "sync", "logprobs", "update"), roll(True, True)),
    Grammar("NeMo sync", "NeMo-RL", "sync", ("generation", "update", "logprobs", "data"), nemo(sync=True)),
    Grammar("NeMo async", "NeMo-RL", "async", ("wait", "update", "logprobs", "data", "sync"), nemo(sync=False)),
    Grammar("prime-rl old", "prime-rl", "async", (), prime_console(old=True), first=0, responses=False),
    Grammar("prime-rl console", "prime-rl", "async", (), prime_console(old=False), precision=0.02, responses=False),
    Grammar("prime-rl file", "prime-rl", "async", ("wait", "data", "sync", "update"), prime_file, responses=False),
    Grammar("SkyRL dicts", "SkyRL", "sync", ("generation", "data", "logprobs", "advantage", "update", "sync"), skyrl_dict),
    Grammar("SkyRL async", "SkyRL", "async", ("wait", "data", "logprobs", "advantage", "update", "sync"), skyrl_dict),
    Grammar("SkyRL timers", "SkyRL", "sync", ("generation", "data", "logprobs", "update", "sync"), skyrl_timers, responses=False),
    Grammar("TRL", "TRL", "sync", (), trl),
    Grammar("open-instruct wide", "open-instruct", "async", ("wait", "update", "sync", "other"), open_instruct(160)),
    Grammar("open-instruct narrow", "open-instruct", "async", ("wait", "update", "sync", "other"), open_instruct(80)),
)
