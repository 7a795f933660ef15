"""Files that are no launch configuration, damaged ones and hostile ones: a clear refusal, never a traceback or a stall."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.errors import InputError
from rollplan.profilers.configs.read import parse_config, read_config
from tests.profilers.configs.examples import EXAMPLES, Example

NESTED = "a:\n" + "".join(f"{' ' * depth}a:\n" for depth in range(1, 300))
PAIRS = list(zip("abcdefgh", "bcdefghi", strict=True))
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in PAIRS)
MERGES = "a: &a {x: 1}\n" + "".join(f"{new}: &{new} {{<<: [{', '.join([f'*{old}'] * 9)}]}}\n" for old, new in PAIRS)
DOUBLING = "A=xx\n" + "A=$A$A\n" * 60 + "python -m verl.trainer.main_ppo trainer.nnodes=$A\n"


@pytest.mark.parametrize(
    ("text", "suffix", "words"),
    [
        ("", ".yaml", "empty"),
        ("- 1\n- 2\n", ".yaml", "holds no keys"),
        ("a: [1\n", ".yaml", "line 2"),
        ("a: !!python/object/apply:os.system ['true']\n", ".yaml", "is not YAML"),
        ("a: *a\n", ".yaml", "alias"),
        ("a: &a [*a]\n", ".yaml", "alias"),
        ("a: 1\n---\nb: 2\n", ".yaml", "is not YAML"),
        (NESTED, ".yaml", "nested"),
        (LAUGHS, ".yaml", "stands for more than"),
        (MERGES, ".yaml", "stands for more than"),
        ("a: " + "9" * 6000 + "\n", ".yaml", "is not YAML"),
        ("a: 0x" + "f" * 6000 + "\n", ".yaml", "thousands of digits"),
        ("a = 0x" + "f" * 6000 + "\n", ".toml", "thousands of digits"),
        ("a: !!timestamp 'noon'\n", ".yaml", "is not YAML"),
        ("a = \n", ".toml", "is not TOML"),
        ("a = " + "[" * 5000, ".toml", "is not TOML"),
        ("{", ".json", "is not JSON"),
        ("[" * 100000, ".json", "nested too deeply"),
        ("[1]", ".json", "holds no keys"),
        ("{'a': __import__('os')}", ".json", "is not JSON"),
        ("import trl\n", ".py", "Python program"),
        (DOUBLING, ".sh", "more text than any command has"),
        ("echo hello\n", ".sh", "shows no key and no program"),
        ("a: 1\n", ".yaml", "shows no key and no program"),
        ("x" * 4_000_001, ".sh", "characters"),
    ],
)
def test_refusals_say_what_is_wrong(text: str, suffix: str, words: str) -> None:
    """One finding that names the fault, quickly."""
    with pytest.raises(InputError, match=words):
        parse_config(text, "launch", suffix)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Missing, a folder, binary."""
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"a: \0\n")
    for path in (tmp_path / "absent.yaml", tmp_path, binary):
        with pytest.raises(InputError):
            read_config(path)


def test_several_frameworks_are_refused_unless_told() -> None:
    """A file with keys of two frameworks is read as neither by chance."""
    text = "orchestrator: {batch_size: 64}\nrollout_batch_size: 8\nactor_infer: {device_mapping: '[0]'}\n"
    with pytest.raises(InputError, match="looks like ROLL and prime-rl"):
        parse_config(text, "launch", ".yaml")
    assert parse_config(text, "launch", ".yaml", "roll").framework == "ROLL"
    assert parse_config(text, "launch", ".yaml", "Prime_RL").framework == "prime-rl"
    with pytest.raises(InputError, match="choose from verl"):
        parse_config(text, "launch", ".yaml", "deepspeed")


@given(st.sampled_from(EXAMPLES), st.data())
def test_damaged_files_are_read_or_refused(example: Example, data: st.DataObject) -> None:
    """Pieces cut out, doubled, replaced: settings or `InputError`, nothing else."""
    text = example.text
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 40)))
        middle = data.draw(
            st.sampled_from(["", text[start:end] * 2, "\x00", "${", "$((", "'", '"', "=", "-1", "1e400", "nan", "[", "]: &x *x", "\n", "%"])
        )
        text = text[:start] + middle + text[end:]
    try:
        settings = parse_config(text, "launch", example.suffix, data.draw(st.sampled_from([None, example.framework])))
    except InputError:
        return
    assert settings.model_validate(settings.model_dump()) == settings


@given(st.text(alphabet="a=${}()[]<>&|;'\"\\ \n#-*+1.:~`", max_size=120), st.sampled_from([".sh", ".yaml", ".toml", ".json", ".log"]))
def test_any_text_is_read_or_refused(text: str, suffix: str) -> None:
    """Every character that means something to one of the grammars."""
    with contextlib.suppress(InputError):
        parse_config(text, "launch", suffix, "verl")


@given(
    st.sampled_from(EXAMPLES),
    st.sampled_from(["nan", "inf", "-3", "1e999", "0", "null", "true", "[]", "{}", "99999999999999999999", "' '"]),
    st.integers(0, 40),
)
def test_any_value_may_be_nonsense(example: Example, value: str, which: int) -> None:
    """The n-th value of each example replaced: no wrong number, no exception."""
    parts = example.text.split("=")
    index = 1 + which % max(1, len(parts) - 1)
    if index < len(parts):
        rest = parts[index].partition(" ")
        parts[index] = value + rest[1] + rest[2] if rest[1] else value + "\n"
    with contextlib.suppress(InputError):
        parse_config("=".join(parts), "launch", example.suffix, example.framework)


@pytest.mark.parametrize("value", ["nan", "inf", "1e400"])
def test_numbers_that_are_none_are_told(value: str) -> None:
    """They are no numbers of anything, and no default stands for them."""
    found = parse_config(f"python3 train.py --rollout-num-gpus 16 --n-samples-per-prompt {value}", "launch")
    assert found.samples_per_prompt is None
    assert any("--n-samples-per-prompt" in warning and "not a finite number" in warning for warning in found.warnings)
