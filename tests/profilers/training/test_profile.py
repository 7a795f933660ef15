"""From a worker's answer to a profile: laws, moves, memory beside the bill, warnings, and predictions that know their range."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollplan import InputError
from rollplan.models.architecture import Architecture
from rollplan.models.profile.file import Profile
from rollplan.models.profile.training import TrainingProfile
from rollplan.models.reference.architectures import from_hf_config
from rollplan.profilers.training import profile as module
from rollplan.profilers.training.profile import Wanted, profile, profile_of, training_of

GIB = 2**30
Answer = Callable[..., dict[str, Any]]


def seconds(length: int) -> float:
    """What the made-up law says of one sequence, its constant left out."""
    return 0.001 * length + 1e-6 * length**2


@pytest.fixture
def model(tiny: dict[str, Any]) -> Architecture:
    return from_hf_config(tiny, "tiny")


@pytest.fixture
def training(model: Architecture, answer: Answer) -> TrainingProfile:
    return training_of(model, answer(), "none")


def test_the_laws_of_the_points_are_found(training: TrainingProfile) -> None:
    """0.1 s + 1 ms per token + 1 us per square; log-probs a third of it."""
    assert (training.update.a_s, training.update.b_s_per_token, training.update.c_s_per_token2) == pytest.approx((0.1, 1e-3, 1e-6))
    assert training.log_prob is not None
    assert training.log_prob.b_s_per_token == pytest.approx(1e-3 / 3)
    assert training.update.worst_error < 1e-9


def test_a_prediction_inside_the_range_is_measured(training: TrainingProfile) -> None:
    """Lengths may be mixed: squares count one by one."""
    found = training.predict([100, 300])
    assert found.value == pytest.approx(0.1 + seconds(100) + seconds(300))
    assert found.provenance == "measured"
    assert training.predict([400, 1, 1, 1, 1]).provenance == "measured", "attention is that of the long one, whatever the plain mean"


@pytest.mark.parametrize(
    ("lengths", "outside"),
    [
        ([400] * 5, "2000 tokens are outside the measured 100 to 1600"),
        ([50, 50], "50 tokens per sequence are outside the measured 100 to 400"),
        ([1000], "1000 tokens per sequence are outside the measured 100 to 400"),
    ],
)
def test_a_prediction_outside_the_range_says_so(training: TrainingProfile, lengths: list[int], outside: str) -> None:
    """The number is there, marked as an estimate."""
    found = training.predict(lengths)
    assert found.provenance == "estimated"
    assert outside in found.note


def test_a_prediction_of_nothing_is_refused(training: TrainingProfile) -> None:
    """And one of log-probs that nobody measured."""
    for lengths in ([], [0]):
        with pytest.raises(ValueError, match="lengths must be"):
            training.predict(lengths)
    with pytest.raises(ValueError, match="log_prob was not measured"):
        training.model_copy(update={"log_prob": None}).predict([100], "log-prob")


def test_moves_have_their_speed(training: TrainingProfile) -> None:
    """1 GiB in 0.1 s, once in 0.2 s: the slow quartile of the seconds is the low one of the speed."""
    offload = training.moves[0]
    assert offload.gb_s.median == pytest.approx(GIB / 1e9 / 0.1)
    assert offload.gb_s.low == pytest.approx(GIB / 1e9 / 0.15)
    assert offload.gb_s.low <= offload.gb_s.median <= offload.gb_s.high


def test_the_memory_bill_stands_beside_what_was_measured(model: Architecture, training: TrainingProfile) -> None:
    """Of the largest micro-batch. Parameters have 4 bytes in fp32, as many gradients, twice the moments.

    Forward and backward: 8 h + 4 q + 4 k + 8 f = 1,920 bytes per token and layer in bf16, twice that in fp32, two layers; three fp32
    copies of 256 logits. Log-probs: one layer, and one copy for the 1024 tokens of a chunk.
    """
    parameters = round(model.params_b * 1e9)
    update, log_prob = training.memory
    assert (update.kind, update.sequences, update.sequence_length) == ("update", 4, 400)
    predicted = {term.term: term.predicted_gib * GIB for term in update.terms}
    assert predicted["weights"] == predicted["gradients"] == pytest.approx(4 * parameters)
    assert predicted["optimizer"] == pytest.approx(8 * parameters)
    assert predicted["activations and logits"] == pytest.approx(1600 * (2 * 2 * 1920 + 3 * 4 * 256))
    assert predicted["peak"] == pytest.approx(16 * parameters + predicted["activations and logits"])
    measured = {term.term: term.measured_gib * GIB for term in update.terms}
    assert measured["activations and logits"] == pytest.approx(GIB + 1_600_000)
    rest = next(term for term in log_prob.terms if term.term == "activations and logits")
    assert rest.predicted_gib * GIB == pytest.approx(1600 * 2 * 1920 + 1024 * 4 * 256)
    assert rest.measured_gib * GIB == pytest.approx(1_600_000)


def test_full_checkpointing_is_billed_as_such(model: Architecture, answer: Answer) -> None:
    """Each layer's input, 2 h, and one layer while it is recomputed."""
    (update, _) = training_of(model, answer(), "full").memory
    rest = next(term for term in update.terms if term.term == "activations and logits")
    assert rest.predicted_gib * GIB == pytest.approx(1600 * (2 * (2 * 2 * 64 + 1920) + 3 * 4 * 256))


def test_peaks_that_nobody_knows_are_not_compared(model: Architecture, answer: Answer) -> None:
    """A zero would look like a measurement."""
    raw = answer()
    for point in raw["points"]:
        point["peak_bytes"] = None
    assert [check.kind for check in training_of(model, raw, "none").memory] == ["log-prob"]


def test_the_file_holds_everything(model: Architecture, answer: Answer, tmp_path: Path) -> None:
    """What is read is what was written."""
    made = profile_of(model, answer("NVIDIA H200", "bfloat16"), "full")
    made.save(tmp_path / "profile.json")
    assert Profile.load(tmp_path / "profile.json") == made
    assert (made.origin.kind, made.origin.device, made.origin.weights, made.warnings) == ("measured", "NVIDIA H200", "dummy", ())
    assert made.origin.source == f"rollplan profile train --model {model.name}", "a name, no path of this machine"


def test_what_makes_numbers_doubtful_is_a_warning(model: Architecture, answer: Answer) -> None:
    """A CPU, a busy machine, one length, a file that came from the cache."""
    raw = answer(points=[{**point, "update_s": [0.1, 0.2, 0.4]} for point in answer()["points"][:3]])
    raw["moves"][3]["from_storage"] = 0.1
    warnings = " ".join(profile_of(model, raw, "none").warnings)
    for words in ("on a CPU", "3 of 3 micro-batches have quartiles more than 10 %", "one sequence length only", "not from storage"):
        assert words in warnings


@pytest.fixture
def asked(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Requests that reach the worker, which answers at once."""
    requests: list[dict[str, Any]] = []

    def ask(_module: str, request: dict[str, Any], *_rest: object) -> dict[str, Any]:
        requests.append(request)
        assert Path(request["folder"]).is_dir()
        return answer()

    monkeypatch.setattr(module, "ask", ask)
    return requests


@pytest.fixture
def config(tiny: dict[str, Any], tmp_path: Path) -> Path:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").write_text(json.dumps(tiny))
    return tmp_path / "tiny"


def test_the_request_says_what_is_wanted(asked: list[dict[str, Any]], config: Path, tiny: dict[str, Any], tmp_path: Path) -> None:
    """The folder of cold moves is in the one that was named, and gone afterwards."""
    made = profile(config, Wanted(tokens=[512], lengths=[128], checkpointing="full", dtype="bfloat16", moves=False, disk=tmp_path))
    (request,) = asked
    assert made.name == "training of tiny"
    assert (request["tokens"], request["lengths"], request["checkpointing"], request["moves"]) == ([512], [128], True, [])
    assert request["config"] == tiny
    assert Path(request["folder"]).parent == tmp_path
    assert not Path(request["folder"]).exists()


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"tokens": [0]}, "--tokens = 0: are not counts of tokens"),
        ({"tokens": [100], "lengths": [64]}, "--tokens = 100: hold no whole sequences of the lengths"),
        ({"disk": Path("nowhere")}, "--disk = `nowhere`: is not a folder"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_runs(wanted: dict[str, Any], message: str) -> None:
    """Each with its option."""
    with pytest.raises(InputError, match=message):
        Wanted(**wanted)


def test_sequences_beyond_the_models_positions_are_refused(asked: list[dict[str, Any]], config: Path) -> None:
    """torch would compute something for them."""
    with pytest.raises(InputError, match="max_position_embeddings = 4096"):
        profile(config, Wanted(lengths=[8192]))
    assert asked == []
