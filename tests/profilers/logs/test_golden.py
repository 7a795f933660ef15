"""Numbers that were published, in the grammar of their framework; and what the frameworks' sources say of their totals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rollplan.profilers.logs.read import read_log

from .grammar import Truth
from .truths import named, read_text, steady


def test_the_line_of_verl_9bc360aa9_adds_up_and_says_how_many_gpus(tmp_path: Path) -> None:
    """Step 3 of the run in verl's merge commit 9bc360aa9: 8 A800, 512 prompts with 5 responses each."""
    text = (
        "(TaskRunner pid=1) step:3 - global_seqlen/mean:205956.250 - response_length/mean:379.654 - prompt_length/mean:263.959 - "
        "timing_s/gen:69.763 - timing_s/reward:3.414 - timing_s/old_log_prob:30.005 - timing_s/ref:30.284 - "
        "timing_s/update_actor:93.705 - timing_s/step:227.641 - perf/total_num_tokens:1647650.000 - "
        "perf/time_per_step:227.641 - perf/throughput:904.741\n"
    )
    (run,) = read_text(tmp_path, text)
    (step,) = run.kept
    assert (run.mode, run.gpus, step.amounts["samples"]) == ("sync", 8, 512 * 5)
    assert step.phases == {"generation": 69.763, "reward": 3.414, "old_logprob": 30.005, "reference": 30.284, "update": 93.705}
    assert step.unexplained_s == pytest.approx(0.47, abs=0.005)


def test_the_block_of_nemo_rl_1052_adds_up(tmp_path: Path) -> None:
    """NeMo-RL PR 1052: 66.55 s, of which the trainer waits 32.52 s; rounding leaves 0.06 s."""
    parts = {"exposed_generation": 32.52, "policy_training": 25.05, "policy_and_reference_logprobs": 4.78, "buffer_sampling": 1.38}
    parts |= {"logprob_inference_prep": 1.34, "training_prep": 1.06, "data_processing": 0.23, "weight_sync": 0.13}
    lines = ["📊 Training Results:", "  • Avg Trajectory Age: 1.00 steps", "⏱️  Timing:", "  • Total step time: 66.55s"]
    lines += [f"  • {name}: {time:.2f}s ({100 * time / 66.55:.1f}%)" for name, time in parts.items()]
    (run,) = read_text(tmp_path, "\n".join(lines) + "\n")
    (step,) = run.kept
    assert (run.mode, step.step_s, step.amounts["staleness"]) == ("async", 66.55, 1.0)
    assert {name: round(time, 2) for name, time in step.phases.items()} == {
        "wait": 32.52,
        "update": 25.05,
        "logprobs": 4.78,
        "data": 1.61,
        "switch": 2.40,
        "sync": 0.13,
    }
    assert step.unexplained_s == pytest.approx(0.06, abs=0.001)


def test_the_dict_of_slime_1102_is_mended_by_what_its_step_time_leaves_out(tmp_path: Path) -> None:
    """slime PR 1102: step_time 14.183 s is wait and training; sleeping 4.036, waking 1.944, weights 0.335 s come on top."""
    values = {"perf/sleep_time": 4.036, "perf/update_weights_time": 0.335, "perf/wake_up_time": 1.944, "perf/train_wait_time": 11.334}
    values |= {"perf/ref_log_probs_time": 1.404, "perf/actor_train_time": 1.025, "perf/train_time": 2.844, "perf/step_time": 14.183}
    (run,) = read_text(tmp_path, f"perf 2: {values}\n")
    (step,) = run.kept
    assert (run.mode, step.total, step.step_s) == ("sync", "stated and mended", pytest.approx(20.498))


def test_totals_of_roll_belong_to_the_step_before(tmp_path: Path) -> None:
    """RLVR adds the last total at the start of the next step (roll/pipeline/rlvr/rlvr_pipeline.py), and 0 at the first."""
    rows = [(1, 0.0, 30.0), (2, 51.0, 40.0), (3, 61.0, 35.0)]
    text = "".join(
        f"metrics_tag: {json.dumps({'step': n, 'metrics': {'time/step_total': t, 'time/step_generate': g, 'time/step_train': 20.0}})}\n"
        for n, t, g in rows
    )
    (run,) = read_text(tmp_path, text)
    assert [(step.step_s, step.total) for step in run.steps] == [(51.0, "stated"), (61.0, "stated"), (55.0, "summed")]
    assert run.mode == "unknown"


@pytest.mark.parametrize(("pause", "mode"), [(2e-6, "sync"), (0.4, "async")])
def test_only_the_async_pipeline_of_roll_has_a_server_to_stop(tmp_path: Path, pause: float, mode: str) -> None:
    """The timer's block is empty in the sync pipeline (same file); without the configuration this is what tells them apart."""
    metrics = {"time/step_stop_server": pause, "time/step_generate": 30.0, "time/step_train": 20.0}
    text = "".join(f"metrics_tag: {json.dumps({'step': n, 'metrics': metrics})}\n" for n in range(3))
    (run,) = read_text(tmp_path, text)
    assert (run.mode, ("generation" if mode == "sync" else "wait") in run.kept[0].phases) == (mode, True)


def test_rows_of_open_instruct_without_a_frame_are_read(tmp_path: Path) -> None:
    """Somebody searched the log for `time`."""
    text = "time | total: 350.12 | training: 145.00 | trainer_waiting_for_data: 190.00\n" * 2
    (run,) = read_text(tmp_path, text)
    assert [(step.step_s, step.phases) for step in run.kept] == [(350.12, {"update": 145.0, "wait": 190.0})] * 2


def test_gpus_follow_from_rates_in_total_and_per_gpu(tmp_path: Path) -> None:
    """NeMo-RL and ROLL print both; prime-rl only of the trainer, which is said in words."""
    for name, gpus in (("NeMo async", 16), ("ROLL RLVR", 16), ("prime-rl file", None)):
        (run,) = read_text(tmp_path, named(name).write(steady(named(name))))
        assert run.gpus == gpus
    assert any("8 GPUs train" in warning for warning in run.warnings)


def test_samples_begun_before_the_step_show_an_asynchronous_trainer(tmp_path: Path) -> None:
    """verl's V1 trainer prints no key of its own in some modes; the slowest sample gives it away."""
    text = "".join(
        f"step:{n} - timing_s/gen:5.0 - timing_s/update_actor:40.0 - timing_s/step:46.0 - timing_s/agent_loop/generate_sequences/max:44.0\n"
        for n in range(1, 4)
    )
    (run,) = read_text(tmp_path, text)
    assert (run.mode, run.kept[0].phases["wait"], run.kept[0].beside["generation"]) == ("async", 5.0, 44.0)


def test_the_generation_of_one_step_off_is_beside_the_step(tmp_path: Path) -> None:
    """`generate_async` is the timer of the whole generation, `gen` what is left of it to wait for."""
    text = "".join(
        f"step:{n} - timing_s/gen:5.0 - timing_s/sync_rollout_weights:1.0 - timing_s/generate_async:44.0 - timing_s/update_actor:40.0"
        " - timing_s/step:46.5\n"
        for n in range(1, 4)
    )
    (run,) = read_text(tmp_path, text)
    step = run.kept[0]
    assert (step.phases, step.beside) == ({"wait": 5.0, "sync": 1.0, "update": 40.0}, {"generation": 44.0})


def test_a_sync_outside_of_verls_step_is_added_to_it(tmp_path: Path) -> None:
    """Early fully_async logged it on a line of its own, after the step's timer had ended."""
    text = "".join(
        f"step:{n} - fully_async/count/stale_samples_processed:0 - timing_s/gen:5.0 - timing_s/update_actor:40.0 - timing_s/step:46.0\n"
        f"step:{n} - timing_s/param_sync:9.0\n"
        for n in range(1, 4)
    )
    (run,) = read_text(tmp_path, text)
    assert [(step.step_s, step.total) for step in run.kept] == [(55.0, "stated and mended")] * 3


def test_parts_of_a_step_are_kept_if_there_is_nothing_else(tmp_path: Path) -> None:
    """SkyRL PR 130 shows two timers and no step: the sync is measured all the same."""
    text = "Finished: 'sync_weights_to_inference_engines', time cost: 2.66s\nFinished: 'offload_policy_model_to_cpu', time cost: 0.44s\n"
    (run,) = read_text(tmp_path, text)
    (step,) = run.kept
    assert (step.step_s, step.total, step.phases) == (None, "none", {"sync": 2.66, "switch": 0.44})
    assert any("no timer named `step`" in warning for warning in run.warnings)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    """Before anything else."""
    from rollplan import InputError

    for path, problem in ((tmp_path / "none.log", "does not exist"), (tmp_path, "is a directory")):
        with pytest.raises(InputError, match=problem):
            read_log(path)


def test_the_truth_of_a_step_is_its_phases_and_its_gap() -> None:
    """The writer's own arithmetic."""
    assert Truth(1, {"update": 2.0, "sync": 1.0}, 0.5).step_s == 3.5
