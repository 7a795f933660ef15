"""GPUs by name and their prices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.errors import InputError
from rollplan.models.reference.gpus import gpu, gpu_name, gpu_names
from rollplan.models.reference.prices import price_per_gpu_h


@pytest.mark.parametrize(
    ("name", "memory_gib", "peak_tflops", "memory_tb_s", "link_gb_s"),
    [
        ("A100", 80, 312, 2.039, 300),
        ("A800", 80, 312, 2.039, 200),
        ("H100", 80, 989, 3.35, 450),
        ("H800", 80, 989.5, 3.35, 200),
        ("H20", 96, 148, 4.0, 450),
        ("H200", 141, 989, 4.8, 450),
        ("B200", 180, 2250, 7.7, 900),
        ("GB200", 185.03, 2500, 8.0, 900),
        ("L40S", 44.99, 362.05, 0.864, 32),
    ],
)
def test_peak_numbers_are_the_published_ones(
    name: str, memory_gib: float, peak_tflops: float, memory_tb_s: float, link_gb_s: float
) -> None:
    """aiconfigurator-core 0.12.0 system files; H20 and H800: RollMux Table 1, StreamRL Table 1. Links: half of both directions."""
    found = gpu(name)
    assert (found.memory_gib, found.peak_tflops, found.memory_tb_s, found.link_gb_s) == (memory_gib, peak_tflops, memory_tb_s, link_gb_s)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("H100", "H100"),
        ("H100-80GB", "H100"),
        ("H100-SXM", "H100"),
        ("h100_sxm", "H100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("A100", "A100"),
        ("A100-80GB", "A100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A800-SXM4-80GB", "A800"),
        ("H20-96GB", "H20"),
        ("nvidia h200", "H200"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000"),
        ("AMD Instinct MI300X OAM", "MI300X"),
    ],
)
def test_gpus_are_known_by_the_names_people_and_drivers_write(written: str, name: str) -> None:
    """Spelling, memory size and connector of the known part are no other part."""
    assert gpu(written).name == name


@pytest.mark.parametrize("written", ["A100-40GB", "A100-PCIe", "H100-PCIe", "H100 NVL", "H20-141GB", "V100", "H1000", "", "?" * 1000])
def test_other_parts_of_the_same_name_are_not_mistaken(written: str) -> None:
    """An A100 with 40 GB, an H100 on PCIe or an H20 with 141 GB has other numbers."""
    with pytest.raises(InputError, match="measure a profile"):
        gpu(written)


def test_near_names_are_proposed() -> None:
    """Most unknown names are variants."""
    with pytest.raises(InputError, match="did you mean `H100`"):
        gpu("H100-PCIe")


@given(st.text(max_size=40))
def test_any_text_is_a_gpu_or_a_finding(text: str) -> None:
    """Names come from scenario files."""
    try:
        assert gpu_name(text) in gpu_names()
    except InputError:
        return


@pytest.mark.parametrize(
    ("name", "least", "median", "most"),
    [("A100", 1.29, 2.79, 3.43), ("H100", 2.29, 3.20, 12.29), ("H200", 3.39, 3.75, 7.91), ("B200", 4.89, 6.00, 6.99)],
)
def test_on_demand_prices_span_a_wide_range(name: str, least: float, median: float, most: float) -> None:
    """List prices of 2025 and 2026, see the sources in the data file; spot and reserved prices are not among them."""
    found = price_per_gpu_h(name)
    assert found is not None
    assert (found.min_per_h, found.median_per_h, found.max_per_h) == pytest.approx((least, median, most), abs=0.006)


@pytest.mark.parametrize(("name", "price"), [("H20", 1.85), ("H800", 5.28)])
def test_prices_of_a_paper_say_so(name: str, price: float) -> None:
    """RollMux (arXiv 2512.11306) Table 1."""
    found = price_per_gpu_h(name)
    assert found is not None
    assert (found.median_per_h, found.offers) == (price, 1)
    assert "RollMux" in found.note


def test_a_gpu_without_published_price_has_none() -> None:
    """No price is not a price of 0."""
    assert price_per_gpu_h("A800") is None
