"""What is measured in which order, on a trainer and a clock that the test makes up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from rollplan.profilers.training.measure import NoRoomError, measure, micro_batches


@dataclass
class FakeTrainer:
    """A token takes 1 ms forward and backward, a quarter of it without gradients; a step 0.5 s; a move 1 s, a cold one 10 s."""

    most_tokens: int = 10**9
    most_host: bool = True
    now: float = 0.0
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    pending: int = 0

    def _take(self, seconds: float, *call: Any) -> float:
        self.now += seconds
        self.calls.append(call)
        return seconds

    def update(self, sequences: int, length: int) -> float:
        if sequences * length > self.most_tokens:
            raise NoRoomError("out of memory")
        self.pending = max(self.pending, sequences * length)
        return self._take(sequences * length / 1000, "update", sequences, length)

    def log_prob(self, sequences: int, length: int) -> float:
        self.pending = max(self.pending, sequences * length // 10)
        return self._take(sequences * length / 4000, "log_prob", sequences, length)

    def step(self) -> float:
        return self._take(0.5, "step")

    def reset_peak(self) -> None:
        self.pending = 0

    def peak_bytes(self) -> int | None:
        return self.pending

    def state_bytes(self) -> dict[str, int]:
        return {"weights": 100, "gradients": 100, "optimizer": 200}

    def offload(self, what: str) -> float:
        if not self.most_host:
            raise NoRoomError("no host memory")
        return self._take(1.0, "offload", what)

    def load(self, what: str) -> float:
        return self._take(1.0, "load", what)

    def save(self, what: str) -> float:
        return self._take(10.0, "save", what)

    def restore(self, what: str) -> tuple[float, float | None]:
        return self._take(10.0, "restore", what), 0.25

    def forget(self, what: str) -> None:
        self.calls.append(("forget", what))


def run(trainer: FakeTrainer, tokens: tuple[int, ...] = (100, 200), lengths: tuple[int, ...] = (100,), **changes: Any) -> dict[str, Any]:
    request: dict[str, Any] = {
        "points": micro_batches(tokens, lengths),
        "log_prob": True,
        "moves": ["warm", "cold"],
        "spread": 0.05,
        "least": 3,
        "most": 5,
        "time_limit_s": 1000.0,
    }
    return measure(trainer, request | changes, lambda: trainer.now, lambda line: None)


def test_micro_batches_are_the_pairs_that_divide_from_small_to_large() -> None:
    """384 tokens are 3 sequences of 128 and no whole number of 256; what is asked for twice is measured once."""
    assert micro_batches((512, 384, 512), (256, 128)) == [(3, 128), (4, 128), (2, 256)]


def test_every_pass_is_warmed_up_and_repeated_until_it_agrees() -> None:
    """The fake takes the same time always, so the least number is enough; a fresh optimizer step comes before everything."""
    trainer = FakeTrainer()
    found = run(trainer)
    assert trainer.calls[:2] == [("update", 1, 100), ("step",)]
    assert [(point["sequences"], point["update_s"], point["log_prob_s"]) for point in found["points"]] == [
        (1, [0.1] * 3, [0.025] * 3),
        (2, [0.2] * 3, [0.05] * 3),
    ]
    assert found["optimizer_s"] == [0.5] * 3
    assert trainer.calls.count(("update", 2, 100)) == 1 + 3


def test_each_kind_of_pass_has_its_own_peak() -> None:
    """The fake's log-probs need a tenth of the memory; a peak that was not reset would hide that."""
    assert [(point["peak_bytes"], point["log_prob_peak_bytes"]) for point in run(FakeTrainer())["points"]] == [(100, 10), (200, 20)]


def test_log_probs_can_be_left_out() -> None:
    """Then there are none in the answer, not zeros."""
    trainer = FakeTrainer()
    assert [point["log_prob_s"] for point in run(trainer, log_prob=False)["points"]] == [None, None]
    assert not any(call[0] == "log_prob" for call in trainer.calls)


def test_a_micro_batch_that_does_not_fit_is_left_out_with_the_reason() -> None:
    """The others are measured all the same."""
    found = run(FakeTrainer(most_tokens=150))
    assert [point["sequences"] for point in found["points"]] == [1]
    assert found["skipped"] == ["2 x 100 tokens: out of memory"]


def test_if_nothing_fits_there_is_no_answer() -> None:
    """An empty profile would look like a measurement."""
    with pytest.raises(NoRoomError):
        run(FakeTrainer(most_tokens=50))


def test_a_micro_batch_that_would_not_end_in_time_is_left_out() -> None:
    """Small ones took 1.25 ms a token; four times 100,000 tokens are 500 s, 300 s of the limit of which 70 % are for passes."""
    found = run(FakeTrainer(), tokens=(1000, 100_000), lengths=(100,), time_limit_s=300.0)
    assert [point["sequences"] for point in found["points"]] == [10]
    assert found["skipped"] == ["1000 x 100 tokens: 500 s are expected, 208 s of the time limit are left"]


def test_warm_moves_are_repeated_and_cold_ones_as_time_allows() -> None:
    """20 s for writing and reading: three times in a long limit. The share that came from storage is passed on."""
    moves = {(move["what"], move["temperature"], move["direction"]): move for move in run(FakeTrainer())["moves"]}
    assert len(moves) == 8
    assert moves["weights", "warm", "load"]["seconds"] == [1.0] * 3
    assert moves["weights", "cold", "load"]["seconds"] == [10.0] * 3
    assert moves["optimizer", "cold", "load"]["from_storage"] == 0.25
    assert moves["optimizer", "cold", "offload"]["bytes"] == 200


def test_cold_moves_of_the_optimizer_that_would_not_end_in_time_are_left_out() -> None:
    """Twice the bytes of the weights, whose 20 s set the speed: 40 s, of 60 s that began with passes, steps and other moves."""
    trainer = FakeTrainer()
    found = run(trainer, time_limit_s=60.0)
    assert [(move["what"], len(move["seconds"])) for move in found["moves"] if move["temperature"] == "cold"] == [("weights", 1)] * 2
    assert found["skipped"] == ["cold moves of the optimizer: 40 s are expected, 24 s of the time limit are left"]


def test_moves_that_find_no_host_memory_are_left_out_and_cold_ones_are_not() -> None:
    """A reason each."""
    found = run(FakeTrainer(most_host=False))
    assert {move["temperature"] for move in found["moves"]} == {"cold"}
    assert found["skipped"] == ["warm moves of the weights: no host memory", "warm moves of the optimizer: no host memory"]


@pytest.mark.parametrize("temperatures", [[], ["warm"], ["cold"]])
def test_only_the_moves_that_are_asked_for_are_made(temperatures: list[str]) -> None:
    """And what they hold is given back."""
    trainer = FakeTrainer()
    assert {move["temperature"] for move in run(trainer, moves=temperatures)["moves"]} == set(temperatures)
    assert [call for call in trainer.calls if call[0] == "forget"] == [("forget", "weights"), ("forget", "optimizer")]
