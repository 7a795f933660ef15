"""Files of samples: three forms with the same content, and every fault named at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rollplan import InputError
from rollplan.models.calibration.read import read_sources
from rollplan.models.calibration.samples import DecodeSample, Samples

YAML = """\
decode: [{tp: 2, batch: 64, context: 4096, ms: 18.4}, {tp: 2, batch: 1, context: 512, ms: 9}]
rollout: [{gpus: 16, tp: 2, time: 260.9 s, response_mean: 900, samples: 512}]
training: [{layout: tp2-dp4, update: 1.5 min, old_logprob: 9.2 s}, {gpus: 8, reference: 900 ms, tokens: 2e6}]
interference: [{stage: rollout, alone: 100 s, beside: 112 s}]
sync: [2.1 s, 2.3 s]
"""


def read(folder: Path, name: str, text: str) -> Samples:
    """Return the samples of a file."""
    (folder / name).write_text(text)
    (found,) = read_sources(folder / name)
    return found.samples


def test_yaml_holds_every_kind(tmp_path: Path) -> None:
    """Durations with units, all in seconds inside."""
    found = read(tmp_path, "notes.yaml", YAML)
    assert found.count == 8
    assert found.training[0].update_s == 90
    assert found.training[1].reference_s == pytest.approx(0.9)
    assert found.interference[0].beside_s == 112
    assert found.sync_s == (2.1, 2.3)
    assert str(found.rollout[0]) == "rollout on 16 GPUs with tp 2"


def test_json_says_the_same(tmp_path: Path) -> None:
    """Lists and numbers as YAML has them."""
    data = {"decode": [{"tp": 2, "batch": 64, "context": 4096, "ms": 18.4}], "sync": ["2.1 s"]}
    assert read(tmp_path, "notes.json", json.dumps(data)) == read(tmp_path, "notes.yaml", json.dumps(data))


def test_csv_holds_decode_steps_without_having_to_be_a_grid(tmp_path: Path) -> None:
    """The columns of `engine.latency`; others are ignored, holes are allowed."""
    found = read(tmp_path, "steps.csv", "tp,context,batch,ms,remark\n1,4096,64,24.5,warm\n1,512,1,8,\n")
    assert found.decode == (DecodeSample(tp=1, batch=64, context=4096, ms=24.5), DecodeSample(tp=1, batch=1, context=512, ms=8))


@pytest.mark.parametrize(
    ("name", "text", "faults"),
    [
        ("a.yaml", "", ["is empty; give samples"]),
        ("a.yaml", "{}", ["has no samples"]),
        ("a.yaml", "- 1", ["is not a mapping"]),
        ("a.yaml", "decode: [{tp: 1, batch: 0, context: 5, ms: -1}]", ["decode[0].batch", "decode[0].ms"]),
        ("a.yaml", "decode: [{tp: 1, batch: 1, ctx: 5, ms: 1}]", ["decode[0].context: is missing", "decode[0].ctx"]),
        ("a.yaml", "rollout: [{gpus: 8, time: 20}]", ["rollout[0].time = `20`: has no unit"]),
        ("a.yaml", "rollout: [{gpus: 8, time: 0 s}]", ["rollout[0].time = `0 s`: is less than 0.0001 s"]),
        ("a.yaml", "training: [{update: 3 s}]", ["training[0]", "does not say on how many GPUs"]),
        ("a.yaml", "training: [{gpus: 4}]", ["has no time"]),
        ("a.yaml", "training: [{gpus: 4, layout: tp2-dp4, update: 3 s}]", ["has 4 GPUs and a layout of 8"]),
        ("a.yaml", "training: [{layout: 2x4, update: 3 s}]", ["is not a layout"]),
        ("a.yaml", "interference: [{stage: sync, alone: 3 s, beside: 4 s}]", ["choose from rollout, train"]),
        ("a.json", "{", ["is not JSON"]),
        ("a.csv", "tp,batch\n1,1\n", ["has no column context, ms"]),
        (
            "a.csv",
            "tp,context,batch,ms\n1,512,1,fast\n1,512,one,8\n",
            ["decode[0].ms = `fast`: is not a number", "decode[1].batch = `one`"],
        ),
        ("a.csv", "tp,context,batch,ms\n1,512,1,inf\n1,512\n", ["decode[0].ms", "decode[1].batch"]),
        ("a.csv", "tp,context,batch,ms\n", ["has no samples"]),
        ("a.yaml", "decode: [{tp: 1, batch: 1, context: 5, ms: 1e-300}]", ["decode[0].ms"]),
        ("a.yaml", "training: [{layout: zz, update: 3 s}]", ["training[0].layout = `zz`: is not a layout"]),
        ("a.csv", "tp,context,batch,ms\n1,512,1,8,9\n", ["has more values in line 2 than names in the header"]),
        ("a.csv", "tp,context,batch,ms,ms\n1,512,1,8,9\n", ["has the column ms twice"]),
        ("a.csv", 'tp,context,batch,ms\n1,512,1,"8\n1,512,2,9\n', ["is not CSV"]),
        ("a.json", '{"sync": [' + "9" * 5000 + "]}", ["is not JSON"]),
        ("a.json", '{"format": "rollplan/profile/9"}', ["this version of rollplan reads version 1"]),
    ],
)
def test_faults_of_a_file_are_named_with_place_and_remedy(tmp_path: Path, name: str, text: str, faults: list[str]) -> None:
    """All of them at once, and never a traceback."""
    with pytest.raises(InputError) as refused:
        read(tmp_path, name, text)
    assert [fault for fault in faults if fault not in str(refused.value)] == []
