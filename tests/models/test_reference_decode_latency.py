"""Reference decode latency: the published values, the rectangle around them, and models that nobody measured."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.errors import InputError
from rollplan.models.reference.architectures import architecture
from rollplan.models.reference.decode_latency import ReferenceLatency, affine_fit, decode_latency, tps
from rollplan.models.reference.gpus import gpu
from rollplan.models.reference.grids import Grid, Key, completed, estimated_grids, kernel_grids
from rollplan.models.reference.scaling import kv_bytes_per_gpu, nearest, scaled, weight_floor_ms


def at(latency: ReferenceLatency | None, batch: int, context: int) -> float:
    """Return one cell in milliseconds."""
    assert latency is not None
    return float(latency.ptl_ms[list(latency.batches).index(batch), list(latency.contexts).index(context)])


@pytest.mark.parametrize(
    ("model", "tp", "batch", "context", "published_ms"),
    [
        ("Qwen3-8B", 1, 64, 4096, 19.41),
        ("Qwen3-8B", 1, 1, 512, 6.35),
        ("Qwen3-8B", 2, 16, 4096, 6.10),
        ("Qwen3-30B-A3B", 4, 64, 4096, 11.24),
    ],
)
def test_measured_cells_come_back(model: str, tp: int, batch: int, context: int, published_ms: float) -> None:
    """aiconfigurator-core 0.12.0, H100, vLLM: EngineHandle.predict_decode_latency(batch, context - 1); experts over all GPUs."""
    latency = decode_latency(model, "H100", tp)
    assert at(latency, batch, context) == pytest.approx(published_ms, abs=0.011)
    assert latency is not None
    assert latency.provenance == "reference"
    assert latency.bound is None


def test_the_affine_fit_of_qwen3_8b_on_one_h100_comes_back() -> None:
    """PTL = 6.57 + 0.0104 B + 0.0492 B C / 1000 ms, with a mean error of 3 %."""
    assert affine_fit("Qwen3-8B", "H100", 1) == pytest.approx((6.57, 0.0104, 0.0492, 3.0), abs=0.005)


@pytest.mark.parametrize(("model", "gpu_text"), [("Qwen3-8B", "H800"), ("Qwen3-8B", "H20"), ("Qwen3-8B", "A10")])
def test_there_is_no_fit_without_measurement(model: str, gpu_text: str) -> None:
    """H800 and H20 have estimates only, an A10 nothing."""
    assert affine_fit(model, gpu_text, 1) is None


def test_gb200_takes_the_kernels_of_b200_and_says_so() -> None:
    """The same chip with another NVLink; only the fits of its own sweep were kept."""
    known, kernels = decode_latency("Qwen3-8B", "GB200", 1), decode_latency("Qwen3-8B", "B200", 1)
    assert known is not None
    assert kernels is not None
    assert known.ptl_ms.tolist() == kernels.ptl_ms.tolist()
    assert (known.provenance, kernels.provenance) == ("estimated", "reference")
    assert "kernels of B200" in known.note
    assert tps("Qwen3-8B", "GB200") == tps("Qwen3-8B", "B200")


@pytest.mark.parametrize(
    ("model", "gpu_text", "degrees"),
    [("Qwen3-8B", "H100", (1, 2, 4, 8)), ("Qwen2.5-7B", "H100", (1, 2, 4)), ("Qwen3-8B", "H20", (1, 2, 4, 8)), ("Qwen3-8B", "MI300X", ())],
)
def test_degrees_of_tensor_parallelism_divide_the_heads(model: str, gpu_text: str, degrees: tuple[int, ...]) -> None:
    """Qwen2.5-7B has 28 heads."""
    assert tps(model, gpu_text) == degrees


@pytest.mark.parametrize("tp", [0, -1, 3, 16])
def test_other_degrees_have_no_answer(tp: int) -> None:
    """3 does not divide 32 heads, 16 was not measured, the others are no degrees."""
    assert decode_latency("Qwen3-8B", "H100", tp) is None


def test_unknown_names_are_refused() -> None:
    """With the way out: a config file for a model, a profile for a GPU."""
    with pytest.raises(InputError, match=r"config\.json"):
        decode_latency("Qwen9-8B", "H100", 1)
    with pytest.raises(InputError, match="measure a profile"):
        decode_latency("Qwen3-8B", "V100", 1)


def test_every_grid_is_a_complete_rectangle_of_positive_times() -> None:
    """At least two contexts and batches, so that both directions have a slope; the shortest context has every batch."""
    grids = [*kernel_grids().values(), *estimated_grids().values()]
    assert len(grids) == 259 + 2 * 62
    for grid in grids:
        assert grid.ptl_ms.shape == grid.measured.shape == (grid.batches.size, grid.contexts.size)
        assert min(grid.ptl_ms.shape) >= 2
        assert np.all(np.isfinite(grid.ptl_ms) & (grid.ptl_ms > 0))
        assert grid.measured[:, 0].all()
        assert np.all(np.diff(grid.batches) > 0)
        assert np.all(np.diff(grid.contexts) > 0)


def test_18875_values_are_measured_and_1457_intervals_estimated() -> None:
    """None was lost on the way into the package."""
    assert sum(int(grid.measured.sum()) for grid in kernel_grids().values()) == 18_875
    assert sum(int(grid.measured.sum()) for grid in estimated_grids().values()) == 2 * 1_457


@pytest.mark.parametrize(("batch", "context", "real_ms"), [(64, 8192, 31.47), (128, 4096, 31.52), (128, 8192, 56.04)])
def test_cells_beyond_memory_are_within_1_percent_of_the_kernels(batch: int, context: int, real_ms: float) -> None:
    """The kernel database answers there, too (aiconfigurator-core 0.12.0, Qwen3-8B, H100 tp 1); the table leaves them out."""
    latency = decode_latency("Qwen3-8B", "H100", 1)
    assert latency is not None
    assert not latency.measured[list(latency.batches).index(batch), list(latency.contexts).index(context)]
    assert at(latency, batch, context) == pytest.approx(real_ms, rel=0.01)


@given(
    fixed=st.floats(0.1, 50),
    per_sequence=st.floats(0, 1),
    per_kilotoken=st.floats(0.001, 1),
    kept=st.lists(st.integers(1, 5), min_size=3, max_size=3),
)
def test_completing_restores_an_affine_law(fixed: float, per_sequence: float, per_kilotoken: float, kept: list[int]) -> None:
    """PTL = a + b B + c B C / 1000 comes back exactly, wherever memory ends."""
    batches, contexts = np.array([1, 2, 8, 32, 128]), np.array([512.0, 1024.0, 4096.0, 16384.0])
    law = fixed + per_sequence * batches[:, None] + per_kilotoken * batches[:, None] * contexts[None, :] / 1000
    holed = law.copy()
    for column, count in enumerate(sorted(kept, reverse=True), start=1):
        holed[count:, column] = np.nan
    assert completed(holed, batches) == pytest.approx(law)


def test_completing_never_falls_with_context() -> None:
    """Noise may make a long context cheaper at a small batch; this is not carried on to larger ones."""
    batches = np.array([1, 64])
    assert completed(np.array([[5.0, 4.9], [9.0, np.nan]]), batches)[1, 1] == 9.0


@pytest.mark.parametrize(("model", "measured_ms"), [("Qwen3-8B", 12.2), ("Qwen3-14B", 21.2), ("Qwen3-32B", 48.3)])
def test_on_h20_published_speeds_lie_in_the_interval(model: str, measured_ms: float) -> None:
    """Qwen documentation, SGLang 0.4.6, bf16, batch 1, tp 1: only the upper end is near, as it is anchored there (within 15 %)."""
    low, high = (at(decode_latency(model, "H20", 1, bound), 1, 1024) for bound in ("lo", "hi"))
    assert low < measured_ms < high * 1.15
    assert high == pytest.approx(measured_ms, rel=0.15)


@pytest.mark.parametrize("gpu_text", ["H20", "H800"])
def test_intervals_are_marked_as_estimates_and_ordered(gpu_text: str) -> None:
    low, high = decode_latency("Qwen3-8B", gpu_text, 2, "lo"), decode_latency("Qwen3-8B", gpu_text, 2)
    assert low is not None
    assert high is not None
    assert (low.bound, high.bound, low.provenance, high.provenance) == ("lo", "hi", "estimated", "estimated")
    assert np.all(low.ptl_ms <= high.ptl_ms)
    assert "not measured" in low.note


def test_every_interval_is_ordered() -> None:
    """A lower estimate above the upper one would make an interval empty."""
    grids = estimated_grids()
    assert all(
        np.all(grid.ptl_ms <= grids[Key(key.model, key.gpu, key.tp, "hi")].ptl_ms + 1e-9) for key, grid in grids.items() if key.side == "lo"
    )


def test_an_a800_has_the_kernels_of_an_a100_as_an_estimate() -> None:
    """Same chip, slower NVLink."""
    chip, sister = decode_latency("Qwen3-8B", "A100", 2), decode_latency("Qwen3-8B", "A800", 2)
    assert at(chip, 64, 4096) == at(sister, 64, 4096)
    assert sister is not None
    assert (sister.provenance, sister.gpu) == ("estimated", "A800")


def test_a_finetune_has_the_grid_of_its_base() -> None:
    """Kernel times depend on the shape, so this is no estimate."""
    model = architecture("Qwen3-8B").model_copy(update={"name": "our-finetune"})
    latency = decode_latency(model, "H100", 1)
    assert latency is not None
    assert (latency.model, latency.provenance, at(latency, 64, 4096)) == ("our-finetune", "reference", 19.41)


@pytest.mark.parametrize(("batch", "context", "real_ms"), [(1, 1024, 1.48), (64, 4096, 11.36), (256, 1024, 11.49)])
def test_an_unmeasured_model_is_scaled_from_the_nearest_one(batch: int, context: int, real_ms: float) -> None:
    """Qwen3-0.6B on H100 is not in the table; the kernel database says these values. Scaled from Qwen3-1.7B, within 4 %."""
    latency = decode_latency("Qwen3-0.6B", "H100", 1)
    assert latency is not None
    assert latency.provenance == "estimated"
    assert "scaled from Qwen3-1.7B" in latency.note
    assert at(latency, batch, context) == pytest.approx(real_ms, rel=0.04)


def errors_leaving_out(model: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the relative errors of all measured cells of a model if it is scaled from the nearest other one."""
    errors = []
    for key, grid in kernel_grids().items():
        if key.model != model:
            continue
        others = {k.model: g for k, g in kernel_grids().items() if (k.gpu, k.tp) == (key.gpu, key.tp) and k.model != model}
        source = nearest(architecture(model), others, key.tp)
        if source is None:
            continue
        other = others[source.name]
        guess = scaled(other, source, architecture(model), gpu(key.gpu), key.tp)
        rows, columns = min(grid.batches.size, other.batches.size), min(grid.contexts.size, other.contexts.size)
        both = grid.measured[:rows, :columns] & other.measured[:rows, :columns]
        errors.append((guess.ptl_ms[:rows, :columns] / grid.ptl_ms[:rows, :columns] - 1)[both])
    return np.concatenate(errors)


def test_leaving_a_dense_model_out_costs_1_4_percent_in_the_median() -> None:
    """What the docstring of `scaled` says: 90 % below 8 %."""
    dense = sorted({key.model for key in kernel_grids() if not architecture(key.model).moe})
    errors = np.abs(np.concatenate([errors_leaving_out(model) for model in dense]))
    assert (np.median(errors), np.quantile(errors, 0.9)) == pytest.approx((0.014, 0.075), abs=0.002)


def test_leaving_a_mixture_of_experts_out_costs_more_than_10_percent() -> None:
    """Only two were measured, and expert kernels do not scale: the note of such a latency says `estimated` for a reason."""
    errors = np.abs(np.concatenate([errors_leaving_out(model) for model in ("Qwen3-30B-A3B", "Qwen3-235B-A22B")]))
    assert (np.median(errors), np.quantile(errors, 0.9)) == pytest.approx((0.132, 0.318), abs=0.005)


@pytest.mark.parametrize("name", ["Qwen3-8B", "Qwen3-30B-A3B"])
def test_scaling_a_model_to_itself_changes_nothing(name: str) -> None:
    """All three ratios are 1."""
    grid, model = kernel_grids()[Key(name, "H100", 1)], architecture(name)
    assert scaled(grid, model, model, gpu("H100"), 1).ptl_ms == pytest.approx(grid.ptl_ms)


def test_attention_scales_with_kv_bytes_only() -> None:
    """A grid made of attention alone."""
    batches, contexts = np.array([1, 8]), np.array([1000.0, 2000.0])
    cells = batches[:, None] * contexts[None, :] / 1000
    grid = Grid(batches, contexts, cells, np.ones((2, 2), dtype=bool))
    model = architecture("Qwen3-8B")
    half = model.model_copy(update={"kv_heads": 4})
    assert scaled(grid, model, half, gpu("H100"), 1).ptl_ms == pytest.approx(cells / 2)


def test_kv_heads_are_repeated_beyond_their_number() -> None:
    """Four heads on eight GPUs: every GPU holds one, as on four."""
    model = architecture("Qwen2.5-7B")
    assert [kv_bytes_per_gpu(model, tp) for tp in (1, 2, 4, 8)] == [57344, 28672, 14336, 14336]


def test_a_dense_model_reads_its_weights_then_multiplies() -> None:
    """Qwen3-8B on H100: 7.57e9 * 2 bytes / 3.35 TB/s = 4.52 ms; at B 512, 2 * 7.57e9 * 512 / 989 TFLOPS = 7.84 ms."""
    assert weight_floor_ms(architecture("Qwen3-8B"), gpu("H100"), 1, np.array([1, 512])) == pytest.approx([4.518, 7.836], abs=0.002)


def test_a_large_batch_reads_all_experts() -> None:
    """Qwen3-30B-A3B: one token reads 3.04e9 parameters, a batch of 256 almost all but the embedding, 30.2e9."""
    floor = weight_floor_ms(architecture("Qwen3-30B-A3B"), gpu("H100"), 1, np.array([1, 256]))
    assert floor * 3.35 / 2 == pytest.approx([3.042, 30.221], abs=0.002)


def test_a_mixture_of_experts_is_compared_with_its_like() -> None:
    """Although a dense model is nearer in active parameters."""
    names = ["Qwen3-4B", "Qwen3-235B-A22B"]
    found = nearest(architecture("Qwen3-30B-A3B"), names, 4)
    assert found is not None
    assert found.name == "Qwen3-235B-A22B"


def test_nothing_is_near_nothing() -> None:
    """A GPU without data has no nearest model."""
    assert nearest(architecture("Qwen3-8B"), [], 1) is None


def test_shapes_must_agree() -> None:
    """A grid of another shape would be read at the wrong place."""
    one = np.ones((1, 2))
    with pytest.raises(ValueError, match="must have shape"):
        ReferenceLatency("m", "H100", 1, np.array([1]), np.array([1.0]), one, one > 0, None, "reference", "")
