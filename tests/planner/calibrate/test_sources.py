"""Where samples come from: files, logs and profiles; and which of them say nothing of a job."""

from __future__ import annotations

from typing import Any

import pytest

from rollplan import InputError, Scenario
from rollplan.models.calibration.read import of_profile
from rollplan.models.profile.decode import DecodeCurve, DecodePoint, DecodeProfile
from rollplan.models.profile.file import Profile
from rollplan.models.profile.origin import Origin, Spread
from rollplan.models.profile.run import LoggedRun, LoggedStep
from rollplan.models.profile.training import PassLaw, TrainingPoint, TrainingProfile
from rollplan.models.reference.architectures import architecture
from rollplan.planner.calibrate import calibrate

from .jobs import APART, DATE, POOLS, WORKLOAD, calibrated, numbers, scenario, source, step_ms, steps, truth


@pytest.mark.parametrize(
    ("split", "pools", "data", "reason"),
    [
        ("engine: {ptl: {1: 8 ms, 64: 12 ms}}", POOLS, {"decode": steps(APART, 1, 1)}, "does not use the reference"),
        ("", POOLS, {"decode": [{"tp": 3, "batch": 1, "context": 10, "ms": 1.0}]}, "no reference latency of Qwen3-8B on H100 with tp 3"),
        ("", POOLS, {"rollout": [{"gpus": 3, "tp": 2, "time": "9 s"}]}, "no degree of tensor parallelism divides 3 GPUs"),
        ("", POOLS, {"rollout": [{"gpus": 2, "pool": "a100", "time": "9 s"}]}, "pool a100 may not roll out; those that may: h100"),
        ("", POOLS, {"rollout": [{"gpus": 2, "response_mean": 5000, "time": "9 s"}]}, "5000 tokens per response; the workload allows 1 to"),
        ("", POOLS, {"rollout": [{"gpus": 999_999, "tp": 1, "time": "9 s"}]}, "999999 GPUs are more engines than the 256 samples"),
        ("", POOLS, {"training": [{"gpus": 1, "update": "9 s"}]}, "no layout on 1 GPUs fits"),
        ("", POOLS, {"training": [{"layout": "tp3-dp1", "update": "9 s"}]}, "tp3-dp1 cannot be: tp 3 does not divide"),
        (
            "",
            POOLS + ", a100: {gpu: A100, nodes: 1, price: 2 $/h, memory: 2 TB}",
            {"rollout": [{"gpus": 2, "time": "9 s"}]},
            "does not say on which GPUs: add `pool`, one of h100, a100",
        ),
    ],
)
def test_a_sample_that_says_nothing_is_left_out_with_the_reason(split: str, pools: str, data: dict[str, Any], reason: str) -> None:
    """Beside good samples it is listed; alone it is a fault of the input."""
    with pytest.raises(InputError) as refused:
        calibrate(scenario(split, pools), [source(data)], DATE)
    assert reason in str(refused.value)
    found = calibrated(scenario(split, pools), source({**data, "sync": ["2 s"]}))
    assert reason in found.left_out[0].reason
    assert [number.name for number in found.numbers] == ["sync_s"]


def test_samples_that_bear_the_defaults_out_change_nothing() -> None:
    """Noise around the default is no reason to leave it."""
    noisy = [
        {**sample, "ms": sample["ms"] * factor} for sample, factor in zip(steps(APART, 1.07, 5.0), (1.02, 1, 1, 0.98, 1, 1), strict=True)
    ]
    found = calibrated(scenario(), source({"decode": noisy}))
    assert found.settings() == {}
    assert "kept" in (numbers(found)["scale"].note or "")
    assert found.comparisons[0].before == found.comparisons[0].after


def test_without_a_model_there_is_nothing_to_calibrate() -> None:
    """Stage tables have no constants."""
    tables = Scenario.from_yaml(
        f"name: t\npools: {{{POOLS}}}\njobs: [{{name: a, split: {{rollout: {{h100: {{8: 10 s}}}}, train: {{h100: {{8: 10 s}}}}}}}}]"
    )
    with pytest.raises(InputError, match="0 jobs with a `model`"):
        calibrate(tables, [source({"sync": ["1 s"]})], DATE)


def log(mode: Any, gpus: int | None, phases: dict[Any, float], count: int = 5) -> Profile:
    """Return a profile with one run whose first step was dropped and lies far off."""
    kept = [LoggedStep(step=number, step_s=None, total="none", phases=phases) for number in range(1, count + 1)]
    first = LoggedStep(step=0, step_s=None, total="none", phases=dict.fromkeys(phases, 9999.0), dropped="warm-up")
    run = LoggedRun(
        framework="verl", dialect="console", mode=mode, mode_reason="says so", source="train.log", gpus=gpus, steps=(first, *kept)
    )
    origin = Origin(kind="imported", by="rollplan 0.1.0", date=DATE, source="train.log")
    return Profile(name="run", origin=origin, runs=(run,))


def test_a_synchronous_log_gives_every_phase_on_all_of_its_gpus() -> None:
    """Medians of the kept steps; `imported`, because somebody else's clock measured them."""
    rollout, train = truth({"engine": {"overhead": "8 ms"}, "trainer": {"old_logprob": False, "reference": False, "mfu": 0.3}})
    profile = log("sync", 8, {"generation": rollout[8], "update": train[8], "sync": 1.5, "old_logprob": 3.0})
    found = calibrated(scenario(), *of_profile(profile, "run.json"))
    assert numbers(found)["mfu"].value == pytest.approx(0.3, rel=1e-6)
    assert numbers(found)["overhead_ms"].value == pytest.approx(8.0, rel=1e-3)
    assert numbers(found)["sync_s"].value == pytest.approx(1.5)
    assert numbers(found)["forward"].samples == 1
    assert {number.origin.kind for number in found.numbers if number.origin} == {"imported"}
    assert "assumed" in next(one.after.worst_at for one in found.comparisons if one.group == "rollout")


def test_a_log_with_its_own_lengths_is_compared_with_those() -> None:
    """Responses twice as long take about twice as long: no sign of slow hosts."""
    workload = WORKLOAD.replace("mean: 900", "mean: 450")
    rollout, _ = truth({"engine": {"tp": [2], "overhead": "5 ms"}})
    data = {"rollout": [{"gpus": 8, "tp": 2, "time": f"{rollout[8]!r} s", "response_mean": 900}]}
    assert numbers(calibrated(scenario(workload=workload), source(data)))["overhead_ms"].value == pytest.approx(5.0, rel=0.1)
    del data["rollout"][0]["response_mean"]
    assert numbers(calibrated(scenario(workload=workload), source(data)))["overhead_ms"].value > 8


def test_a_log_that_lost_a_sample_is_used_all_the_same() -> None:
    """Asynchronous trainers count what arrived, such as 255 of 256; no layout and no number of updates divides that."""
    tokens = 256 * (900 + 256)
    asked = scenario(workload=WORKLOAD.replace("prompts: 32", "updates: 4, prompts: 32"))
    seconds = []
    for samples in (255, 256):
        data = {"training": [{"gpus": 8, "update": "9 s", "samples": samples, "tokens": tokens}]}
        seconds.append(numbers(calibrated(asked, source(data)))["mfu"].value)
    assert seconds[0] == seconds[1]


@pytest.mark.parametrize(
    ("profile", "phase", "reason"),
    [
        (log("async", 16, {"generation": 50.0, "sync": 1.0}), "generation", "overlaps with other batches"),
        (log("async", 16, {"update": 50.0, "sync": 1.0}), "update", "add --train-gpus"),
        (log("sync", None, {"generation": 50.0, "sync": 1.0}), "generation", "add --rollout-gpus"),
        (log("sync", 8, {"logprobs": 50.0, "sync": 1.0}), "logprobs", "several passes together"),
        (log("sync", 8, {"sync": 1.0}, count=2), "sync", "rests on 2 steps"),
    ],
)
def test_phases_of_a_log_that_say_nothing_are_left_out(profile: Profile, phase: str, reason: str) -> None:
    """Each with the reason and, if there is one, the option that helps."""
    found = calibrated(scenario(), *of_profile(profile, "run.json"), source({"sync": ["1 s"]}))
    assert [(one.sample, reason in one.reason) for one in found.left_out] == [(f"train.log: {phase}", True)]


def test_gpus_that_the_log_does_not_know_are_given_beside_it() -> None:
    """`--rollout-gpus` and `--train-gpus`."""
    _, train = truth({"trainer": {"old_logprob": False, "reference": False, "mfu": 0.3}})
    sources = of_profile(log("async", None, {"update": train[8]}), "run.json", train_gpus=8)
    assert numbers(calibrated(scenario(), *sources))["mfu"].value == pytest.approx(0.3, rel=1e-6)


# Profiles.


def measured(device: str, **sections: Any) -> Profile:
    """Return a profile that was measured on one device."""
    origin = Origin(kind="measured", by="rollplan 0.1.0", date=DATE, source="profile rollout", device=device)
    return Profile(name="measured", origin=origin, **sections)


def exactly(value: float) -> Spread:
    """Return a value that every repeat gave."""
    return Spread(median=value, low=value, high=value, repeats=3)


def decoded(model: str, scale: float, overhead_ms: float) -> DecodeProfile:
    """Return a staircase of decode steps on one GPU of the reference law."""
    points = [
        DecodePoint(batch=b, context_tokens=c, attended_tokens=c, ms=exactly(step_ms(1, b, c, scale, overhead_ms)))
        for b in (1, 16, 64)
        for c in (1024, 8192)
    ]
    curve = DecodeCurve(tp=1, points=tuple(points), max_num_seqs=64, max_model_len=16384)
    return DecodeProfile(model=model, architecture=architecture(model), curves=(curve,))


def test_a_decode_profile_of_the_same_model_and_gpu_is_as_good_as_samples() -> None:
    """Its medians at the tokens that were attended to; the driver's name of the GPU is understood."""
    profile = measured("NVIDIA H100 80GB HBM3", decode=decoded("Qwen3-8B", 1.2, 1.0))
    found = numbers(calibrated(scenario(), *of_profile(profile, "p.json")))
    assert (found["scale"].value, found["overhead_ms"].value) == pytest.approx((1.2, 1.0), rel=1e-3)
    assert found["scale"].samples == 6


@pytest.mark.parametrize(
    ("device", "model", "reason"),
    [
        ("CPU", "Qwen3-8B", "was measured on CPU, and no pool of that stage has it"),
        ("NVIDIA A100-SXM4-80GB", "Qwen3-8B", "was measured on A100, and no pool of that stage has it"),
        ("NVIDIA H100 80GB HBM3", "Qwen3-4B", "are of Qwen3-4B; the job has Qwen3-8B"),
    ],
)
def test_a_profile_of_something_else_is_left_out(device: str, model: str, reason: str) -> None:
    """Another GPU or another model has other kernels: nothing carries over."""
    profile = measured(device, decode=decoded(model, 1.2, 1.0))
    found = calibrated(scenario(), *of_profile(profile, "p.json"), source({"sync": ["1 s"]}))
    assert reason in found.left_out[0].reason
    assert [number.name for number in found.numbers] == ["sync_s"]


def trained(mfu: float, dtype: Any = "bfloat16") -> TrainingProfile:
    """Return micro-batches of a world in which updates reach a share of the peak of an H100."""
    shape = architecture("Qwen3-8B")
    flops = {n: 4 / 3 * (6e9 * shape.active_params_b * n + 6 * shape.layers * shape.heads * shape.head_dim * n**2) for n in (1024, 4096)}
    points = tuple(TrainingPoint(sequences=1, sequence_length=n, forward_backward_s=exactly(flops[n] / (989e12 * mfu))) for n in flops)
    law = PassLaw(a_s=0.0, b_s_per_token=1e-4, c_s_per_token2=0.0, terms=("b",), worst_error=0.0)
    return TrainingProfile(
        model=shape, dtype=dtype, checkpointing="full", optimizer="AdamW", points=points, optimizer_s=exactly(0.1), update=law
    )


def test_micro_batches_give_the_mfu_until_whole_updates_say_more() -> None:
    """One GPU knows no communication and no padding."""
    profile = measured("NVIDIA H100 80GB HBM3", training=trained(0.42))
    assert numbers(calibrated(scenario(), *of_profile(profile, "p.json")))["mfu"].value == pytest.approx(0.42, rel=0.01)
    _, train = truth({"trainer": {"old_logprob": False, "reference": False, "mfu": 0.3}})
    found = calibrated(scenario(), *of_profile(profile, "p.json"), source({"training": [{"gpus": 8, "update": f"{train[8]!r} s"}]}))
    assert numbers(found)["mfu"].value == pytest.approx(0.3, rel=1e-6)
    assert found.notes == ("2 micro-batches on one GPU are not used beside whole updates, which say more",)


def test_micro_batches_in_float32_say_nothing_of_bfloat16() -> None:
    """They are many times slower on the same GPU."""
    profile = measured("H100", training=trained(0.05, "float32"))
    found = calibrated(scenario(), *of_profile(profile, "p.json"), source({"sync": ["1 s"]}))
    assert found.left_out[0].reason == "are in float32, the law is for bfloat16"


def test_a_profile_without_times_is_refused() -> None:
    """A former calibration is a result, not a measurement."""
    former = calibrate(scenario(), [source({"sync": ["1 s"]})], DATE)
    with pytest.raises(InputError, match="holds nothing that can be calibrated with"):
        of_profile(former, "calibration.json")
