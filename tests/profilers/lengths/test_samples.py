"""Samples are read as frameworks write them, one line at a time, and a damaged file is a fault, never a traceback."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.models.errors import InputError
from rollplan.models.profile.lengths import Unit
from rollplan.profilers.lengths.files import sources
from rollplan.profilers.lengths.gather import gather
from rollplan.profilers.lengths.samples import Columns, Sample, read_prompts, read_samples


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def read(path: Path, columns: Columns | None = None, unit: Unit = "tokens") -> list[Sample]:
    return list(read_samples(path, columns or Columns(), unit))


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        act()
    return str(caught.value)


def test_csv_and_json_lines_and_gzip_say_the_same(tmp_path: Path) -> None:
    """The form of a file is no property of the run."""
    table = written(tmp_path / "a.csv", 'prompt,tokens,step\n"two, or three?",12,4\nwhy,7.0,5\n')
    row = written(
        tmp_path / "a.jsonl", lines({"prompt": "two, or three?", "tokens": 12, "step": 4}, {"prompt": "why", "tokens": 7.0, "step": 5})
    )
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(row.read_bytes()))
    expected = [Sample(12, "two, or three?", "two, or three?", 4, None), Sample(7, "why", "why", 5, None)]
    assert read(table) == read(row) == read(packed) == expected


def test_a_verl_folder_has_a_file_for_each_step_and_counts_words_when_asked(tmp_path: Path) -> None:
    """verl's rollout dumps hold texts: `<step>.jsonl` with input, output, score and step, read in the order of the steps."""
    for step in (10, 9, 1):
        written(tmp_path / f"{step}.jsonl", lines({"input": "q", "output": "so it is " * step, "gts": "3", "score": 1.0, "step": step}))
    assert [source.step for source in sources(tmp_path)] == [1, 9, 10]
    assert [(sample.step, sample.length) for sample in read(tmp_path, unit="words")] == [(1, 3), (9, 27), (10, 30)]
    assert "--unit words" in refused(lambda: read(tmp_path))


def test_the_step_of_a_dump_that_does_not_say_it_is_in_its_name(tmp_path: Path) -> None:
    """Such as files that somebody wrote himself."""
    written(tmp_path / "step_7.csv", "tokens\n3\n")
    written(tmp_path / "global_step_8" / "samples.csv", "tokens\n4\n")
    assert [(sample.step, sample.length) for sample in read(tmp_path)] == [(7, 3), (8, 4)]


def trace(tokens: list[int | None], finish: str = "stop", prompt: object = "solve", **more: object) -> dict[str, Any]:
    calls = [{"finish_reason": finish, **({} if count is None else {"usage": {"completion_tokens": count}})} for count in tokens]
    return {"task": {"data": {"idx": 3, "prompt": prompt}}, "calls": calls, **more}


def test_prime_rl_traces_count_the_completion_tokens_of_all_calls(tmp_path: Path) -> None:
    """Episodes with several turns, a judge that is not trained, a failed episode, a trace without usage; `eval` is left out."""
    run = tmp_path / "rollouts"
    message = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "solve"}]
    written(
        run / "step_4" / "train" / "all" / "traces.jsonl",
        lines(
            {"id": "a", "traces": [trace([100, 40]), trace([9], agent={"trainable": False})]},
            {"id": "b", "traces": [trace([2048], "length", message)]},
            {"id": "c", "traces": [], "errors": [{"type": "x"}]},
            {"id": "d", "traces": [trace([None], prompt=None)]},
        ),
    )
    written(run / "step_4" / "train" / "effective" / "traces.jsonl", lines({"id": "a", "traces": [trace([100, 40])]}))
    written(run / "step_4" / "eval" / "all" / "traces.jsonl", lines({"id": "e", "traces": [trace([5])]}))
    expected = [
        Sample(140, "solve", "solve", 4, False),
        Sample(2048, "be brief\nsolve", "be brief\nsolve", 4, True),
        Sample(None, None, "3", 4, False),
    ]
    assert read(run) == expected
    assert read(run / "step_4" / "train" / "all" / "traces.jsonl") == expected
    gathered = gather(read_samples(run, Columns()), run)
    assert (gathered.lengths.tolist(), gathered.silent, gathered.truncated, gathered.judged) == ([140, 2048], 1, 1, 2)


def test_a_column_that_is_asked_for_must_be_there(tmp_path: Path) -> None:
    """Else another one would be read in its place."""
    path = written(tmp_path / "a.csv", "prompt,tokens,uid\np,3,1\n")
    assert "did you mean `tokens`?" in refused(lambda: read(path, Columns(length="token")))
    assert read(path, Columns(group="uid"))[0].group == "1"
    assert list(read_prompts(path, None)) == ["p"]
    assert "has no column `question`" in refused(lambda: read(path, Columns(prompt="question")))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "tokens\n-1\n", "is not a number of tokens"),
        ("a.csv", "tokens\nmany\n", "is not a number of tokens"),
        ("a.csv", "tokens,tokens\n1,2\n", "different name for each column"),
        ("a.csv", "tokens,prompt\n1\n", "has 1 values, the header has 2 names"),
        ("a.csv", "", "is not a header"),
        ("a.jsonl", '{"tokens": 3}\n{"tok', "line 2: is not JSON"),
        ("a.jsonl", "[3]\n", "is not a JSON object"),
        ("a.jsonl", '{"tokens": true}\n', "is not a number of tokens"),
        ("a.jsonl", '{"tokens": 1e400}\n', "is not a number of tokens"),
        ("a.jsonl", '{"tokens": 3, "step": -1}\n', "is not a step"),
        ("a.csv", 'tokens,prompt\n1,"never closed\n2,b\n', "is not CSV"),
        ("a.txt", "3\n", "is neither CSV nor JSON lines"),
    ],
)
def test_a_fault_is_named_with_its_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = written(tmp_path / name, text)
    assert message in refused(lambda: read(path))


def test_prompts_that_are_missing_are_not_one_prompt(tmp_path: Path) -> None:
    """Else all samples without a prompt would be one group, alike or not."""
    path = written(tmp_path / "a.jsonl", lines({"tokens": 1, "prompt": None}, {"tokens": 2, "prompt": ""}, {"tokens": 3, "prompt": [{}]}))
    assert [(sample.prompt, sample.group) for sample in read(path)] == [(None, None)] * 3
    path = written(tmp_path / "a.csv", "tokens,prompt,uid\n1,p,\n2,p,7\n")
    assert [sample.group for sample in read(path, Columns(group="uid"))] == [None, "7"]


def test_the_texts_in_the_parts_of_a_message_are_its_prompt(tmp_path: Path) -> None:
    """The form of messages that may hold images; without their texts all would be the same prompt."""
    image, parts = {"type": "image_url", "image_url": "x"}, [{"type": "text", "text": "how"}, {"type": "text", "text": "many?"}]
    rows = [{"tokens": 1, "prompt": [{"role": "system", "content": "be brief"}, {"role": "user", "content": [image, *parts]}]}]
    assert [sample.prompt for sample in read(written(tmp_path / "a.jsonl", lines(*rows)))] == ["be brief\nhow\nmany?"]


def test_what_holds_no_sample_is_refused(tmp_path: Path) -> None:
    empty = written(tmp_path / "a.csv", "tokens\n")
    zeros = written(tmp_path / "b.csv", "tokens\n0\n0\n")
    assert "has no sample" in refused(lambda: gather(read_samples(empty, Columns()), empty))
    assert "2 of length 0" in refused(lambda: gather(read_samples(zeros, Columns()), zeros))
    assert "does not exist" in refused(lambda: read(tmp_path / "none.csv"))
    (tmp_path / "folder").mkdir()
    assert "holds no CSV or JSON-lines file" in refused(lambda: read(tmp_path / "folder"))


WHOLE = lines(
    {"prompt": "p é", "tokens": 12, "step": 1},
    {"id": "a", "traces": [trace([100, 40])]},
    {"prompt": [{"content": "x"}], "tokens": 7, "step": 2},
).encode()


@given(st.data(), st.sampled_from([".jsonl", ".csv", ".jsonl.gz"]))
@settings(max_examples=300)
def test_a_damaged_file_is_read_or_refused_but_never_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, end: str
) -> None:
    """Bytes cut out, put in, changed, in plain and packed files."""
    whole = b'prompt,tokens,step\n"a, b",12,1\nc,7,2\n' if end == ".csv" else gzip.compress(WHOLE, mtime=0) if end == ".jsonl.gz" else WHOLE
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        stop = data.draw(st.integers(start, min(len(content), start + 8)))
        content[start:stop] = data.draw(
            st.binary(max_size=6) | st.sampled_from([b"{", b"[" * 5000, b'"', b"\n", b"\0", b"null", b"1e999", b"\xff"])
        )
    path = tmp_path_factory.mktemp("damaged") / f"samples{end}"
    path.write_bytes(bytes(content))
    with suppress(InputError):
        assert len(gather(read_samples(path, Columns()), path, keep_texts=True).lengths) > 0
