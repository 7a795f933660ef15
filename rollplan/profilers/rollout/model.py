"""The folder that an engine loads: a user's own, one made around a config.json, or one for a public model by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rollplan.models.architecture import Architecture
from rollplan.models.errors import Finding, InputError
from rollplan.models.files import read_text
from rollplan.models.reference.architectures import architecture_name, from_hf_config
from rollplan.models.reference.tables import rows
from rollplan.models.strict import show

_CLASSES = {"qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "llama": "LlamaForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM"}
POSITIONS = 32768
"""What a config made from the table allows; the models themselves take at least as much."""


@contextmanager
def model_folder(model: str, real_weights: bool) -> Iterator[Path]:
    """Yield the folder of a model: of a path to it or to its config.json, or a public model's name (see the reference data).

    Raise `InputError` for anything else, and where real weights are wanted from what has none.
    """
    path = Path(model)
    if path.is_dir():
        _config_text(path / "config.json")
        yield path
        return
    if real_weights:
        raise _refused(model, "has no weights", "give the folder that holds them, or use --weights dummy")
    text = _config_text(path) if path.is_file() else json.dumps(config_of(model))
    with TemporaryDirectory(prefix="rollplan-model-") as folder:
        (Path(folder) / "config.json").write_text(text, encoding="utf-8")
        yield Path(folder)


def config_of(name: str) -> dict[str, object]:
    """Return a config.json for a model of the reference table; raise `InputError` for an unknown one."""
    try:
        known = architecture_name(name)
    except InputError as error:
        finding = error.findings[0]
        raise _refused(name, "is neither a folder, nor a config.json, nor a model of the reference data", finding.remedy) from None
    row = next(row for row in rows("models.csv") if row["name"] == known)
    sizes: dict[str, object] = {
        key: text == "true" if key == "tie_word_embeddings" else int(text)
        for key, text in row.items()
        if text and key not in ("name", "model_type")
    }
    kind = row["model_type"]
    more: dict[str, object] = {
        "architectures": [_CLASSES[kind]],
        "model_type": kind,
        "hidden_act": "silu",
        "max_position_embeddings": POSITIONS,
        "rms_norm_eps": 1e-6,
        "torch_dtype": "bfloat16",
    }
    return {**more, **sizes, **({"norm_topk_prob": True, "decoder_sparse_step": 1} if "num_experts" in sizes else {})}


def architecture_of(folder: Path, name: str) -> Architecture | None:
    """Return the architecture that a folder's config describes; None if it is of a kind that is not understood."""
    try:
        return from_hf_config(folder, name)
    except InputError:
        return None


def model_name(model: str) -> str:
    """Return what the profile calls a model: the name of its folder, or the name that was given."""
    path = Path(model)
    if not path.exists():
        return model
    return (path.parent if path.is_file() else path).absolute().name or "model"


def _config_text(path: Path) -> str:
    """Return the text of a config.json; raise `InputError` if it is none."""
    text = read_text(path, "config.json")
    try:
        good = isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        good = False
    if not good:
        raise InputError(str(path), [Finding(str(path), "", "is not a JSON mapping", "give the config.json of a model")])
    return text


def _refused(model: str, problem: str, remedy: str) -> InputError:
    return InputError("command line", [Finding("--model", show(model), problem, remedy)])
