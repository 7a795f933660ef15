"""The optional adapter to NVIDIA's kernel database."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from rollplan.models.errors import InputError
from rollplan.models.reference import aiconfigurator
from rollplan.models.reference.aiconfigurator import measured_grid
from rollplan.models.reference.decode_latency import decode_latency

needs_package = pytest.mark.skipif(find_spec(aiconfigurator.PACKAGE) is None, reason="aiconfigurator-core is not installed")
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_hidden_layers": 36,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 12288,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "torch_dtype": "bfloat16",
}


@pytest.fixture
def qwen3_8b(tmp_path: Path) -> Path:
    """Write the config of Qwen3-8B."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def test_without_the_package_the_message_names_the_extra(qwen3_8b: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """80 MB are not installed without being asked for."""
    monkeypatch.setattr(aiconfigurator, "PACKAGE", "no_such_package")
    with pytest.raises(ImportError, match=r"pip install 'rollplan\[aic\]'"):
        measured_grid(qwen3_8b, "h100_sxm", 1, [4096], [64])


@needs_package
def test_the_database_gives_the_value_of_the_shipped_table(qwen3_8b: Path) -> None:
    """19.41 ms: Qwen3-8B, H100, tp 1, 64 sequences of 4096 tokens."""
    found, table = measured_grid(qwen3_8b, "h100_sxm", 1, [4096], [64]), decode_latency("Qwen3-8B", "H100", 1)
    assert table is not None
    assert found.ptl_ms == pytest.approx(table.ptl_ms[list(table.batches).index(64), list(table.contexts).index(4096)], abs=0.011)


@needs_package
@pytest.mark.parametrize(("system", "tp"), [("h20_sxm", 1), ("h100_sxm", 7)])
def test_what_the_database_lacks_is_a_finding(qwen3_8b: Path, system: str, tp: int) -> None:
    """The package raises many kinds of errors; users see one."""
    with pytest.raises(InputError, match="has no answer"):
        measured_grid(qwen3_8b, system, tp, [4096], [64])


@needs_package
def test_a_directory_without_config_is_refused_before_anything_is_downloaded(tmp_path: Path) -> None:
    """The package would ask the Hub for a name it does not know."""
    with pytest.raises(InputError, match=r"config\.json"):
        measured_grid(tmp_path, "h100_sxm", 1, [4096], [64])


@needs_package
@pytest.mark.parametrize(("contexts", "batches"), [([], [1]), ([512], []), ([1], [1]), ([512], [0])])
def test_empty_or_zero_grids_are_refused(qwen3_8b: Path, contexts: list[int], batches: list[int]) -> None:
    """A step attends to at least one token that is cached."""
    with pytest.raises(ValueError, match="at least"):
        measured_grid(qwen3_8b, "h100_sxm", 1, contexts, batches)
