"""The torch engine and trainer on real torch: correct, the same in any batch, chunk and place, and gone from the device when off-loaded.

One process per case (`torch_cases.py`), and each test looks at what it saw. Needs ROLLPLAN_VLLM_PYTHON.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[3]


PYTHON = os.environ.get("ROLLPLAN_VLLM_PYTHON")
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason="ROLLPLAN_VLLM_PYTHON must name the Python of an environment with torch (make test-vllm)"),
]
EXACT = 1e-10
"""Float64 of a tiny model: orders of addition differ by 1e-15 or so, anything else by far more."""
MIB = 2**20


@pytest.fixture(scope="module")
def saw(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """What a case saw; each runs once."""
    known: dict[str, dict[str, Any]] = {}

    def of(case: str) -> dict[str, Any]:
        if case not in known:
            command = [str(PYTHON), str(Path(__file__).with_name("torch_cases.py")), case, str(tmp_path_factory.mktemp(case))]
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(CHECKOUT)}
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)
            assert done.returncode == 0, done.stderr[-3000:]
            known[case] = json.loads(done.stdout.splitlines()[-1])
        return known[case]

    return of


Saw = Callable[[str], dict[str, Any]]


def test_a_response_is_the_same_alone_and_in_a_batch(saw: Saw) -> None:
    """Forty prompts of different lengths through sixteen slots, each beginning when another ends, against one after the other."""
    assert saw("engine")["alone"]


def test_log_probs_are_those_of_the_model_without_a_cache(saw: Saw) -> None:
    """The distribution that tokens are drawn from, temperature included, by one plain forward pass over the whole response."""
    assert saw("engine")["worst"] < EXACT


def test_responses_end_at_the_end_of_the_sequence_or_at_their_limit(saw: Saw) -> None:
    """Both happen among the forty, none is longer, and they stream in the order in which they end."""
    seen = saw("engine")
    assert seen["ended"] > 5
    assert seen["full"] > 5
    assert seen["too_long"] == 0
    assert seen["streams"]


def test_an_interrupted_response_goes_on_with_the_same_tokens(saw: Saw) -> None:
    """Interrupted with some finished, some begun and some not; the rest in five slots instead of sixteen, off-loaded in between."""
    seen = saw("engine")
    assert min(seen["interrupted"].values()) > 0
    assert sum(seen["interrupted"].values()) == 40
    assert seen["resumed"]
    assert seen["resumed_log_probs"] < EXACT


def test_repeated_forward_passes_change_nothing(saw: Saw) -> None:
    """They only make work."""
    assert saw("engine")["repeated"]


def test_other_weights_give_other_responses_until_they_are_replaced(saw: Saw) -> None:
    """An engine with other weights takes those of the first from its file, while it is off-loaded."""
    assert not saw("engine")["other_weights"]
    assert saw("engine")["restored"]


def test_an_engine_refuses_what_it_cannot_do(saw: Saw) -> None:
    """It generates only when it is loaded, and takes only weights of its own model."""
    assert "off-loaded; load it" in saw("engine")["refused"]
    assert "not of this model" in saw("engine")["wrong"]


ALGORITHMS = ["grpo 0.0", "grpo 0.1", "ppo 0.1"]
"""With their weights of the KL divergence."""


@pytest.mark.parametrize("which", ALGORITHMS)
def test_loss_and_gradient_are_those_of_the_definitions(saw: Saw, which: str) -> None:
    """Token by token with plain torch, no batches: clipped ratio, group advantages or critic, KL to other weights."""
    seen = saw("training")[which]
    assert seen["loss"] == pytest.approx([seen["loss"][-1]] * 3, abs=EXACT)
    assert seen["norm"][0] == pytest.approx(seen["norm"][1], abs=EXACT)
    assert seen["gradient"] < EXACT
    assert seen["values"]["clipped"] > 0
    assert (seen["values"]["kl"] > 0.01) == ("0.1" in which)


@pytest.mark.parametrize("which", ALGORITHMS)
def test_streamed_chunks_are_one_step_of_the_whole_batch(saw: Saw, which: str) -> None:
    """Thirty samples in four chunks that cut through groups, in any order, off-loaded in between, each pass done twice."""
    seen = saw("training")[which]
    assert seen["chunks"] < EXACT < 1e-4 < seen["moved"]


def test_a_batch_whose_groups_are_incomplete_is_refused(saw: Saw) -> None:
    """Their advantages would be wrong."""
    assert "samples of 1 groups are missing" in saw("training")["missing"]


def test_generalised_advantages_are_the_sum_of_their_definition(saw: Saw) -> None:
    """For responses of different lengths, nothing behind their end."""
    assert saw("training")["gae"] < EXACT


def test_the_clip_holds_back_what_goes_too_far(saw: Saw) -> None:
    """A ratio of 1.65 with an advantage of 1 counts as 1.2."""
    assert saw("training")["clip"] == [[pytest.approx(-1.2)], [True]]


def test_a_restored_trainer_goes_on_bit_for_bit(saw: Saw) -> None:
    """Weights and moments after the third iteration equal those of a trainer that never stopped."""
    assert saw("training")["continued"] == {"version": 3, "equal": True, "tensors": 87}


def test_passes_in_bfloat16_keep_weights_in_float32(saw: Saw) -> None:
    """As on a GPU: what is sent is bfloat16, the gradient is about the same."""
    seen = saw("training")["bfloat16"]
    assert seen["types"] == ["torch.bfloat16"]
    assert seen["norms"][0] == pytest.approx(seen["norms"][1], rel=0.3)


def test_off_loading_gives_the_memory_back_and_loading_restores_every_bit(saw: Saw) -> None:
    """The resident set falls by the bytes of the state, some 300 MiB, and rises again; meanwhile the weights can be read."""
    seen = saw("memory")
    assert seen["size"] == seen["size_away"] > 250 * MIB
    assert seen["loaded"] - seen["away"] > 0.9 * seen["size"]
    assert seen["back"] - seen["away"] > 0.9 * seen["size"]
    assert seen["equal"]
    assert seen["seen_away"] == 0.0


def test_gradients_between_two_chunks_belong_to_the_state(saw: Saw) -> None:
    """Weights and two moments before, gradients as large as the weights on top."""
    assert saw("memory")["pending"] == pytest.approx(saw("memory")["size"] * 4 / 3, rel=1e-6)


def test_tensors_in_one_memory_move_once_and_can_be_written_while_they_are_away(saw: Saw) -> None:
    """Two views of twelve numbers; strides and offsets survive."""
    seen = saw("memory")
    assert seen["odd"] == [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]
    assert seen["written"] == [0.0, 77.0, *map(float, range(2, 12))]
    assert seen["shared_bytes"] == 48


@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
def test_two_ranks_train_like_one(saw: Saw, algorithm: str) -> None:
    """FSDP2 over gloo: uneven chunks, the weights gathered while off-loaded, a restart from both ranks' files; half the state on each."""
    answers = [one[algorithm] for one in saw("ranks")["ranks"]]
    assert len(answers) == 2
    for answer in answers:
        assert max(answer["differences"]) < EXACT
        assert answer["half"] == pytest.approx(0.5, abs=0.01)
        alone, together = answer["values"]
        assert together == pytest.approx(alone, abs=EXACT)
