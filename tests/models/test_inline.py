"""Files that a scenario names: read beside it, refused in words, and complete without them afterwards."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rollplan import Scenario
from rollplan.models.errors import InputError
from rollplan.models.hardware import Link, Pool
from rollplan.models.reference.architectures import architecture
from rollplan.models.units import BANDWIDTH, DURATION, MEMORY, PARAMETERS, PRICE, Unit

EXAMPLES = sorted(path for path in (Path(__file__).parents[2] / "examples").rglob("*.yaml") if "pools:" in path.read_text())
CONFIG = {
    "model_type": "qwen3",
    "num_hidden_layers": 36,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 12288,
    "vocab_size": 151936,
}
LENGTHS = {"mean": 3000, "sigma": 0.8, "limit": 16384}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with good and bad files; tests run in another one, so that paths must be those of the scenario."""
    (tmp_path / "qwen3_8b").mkdir()
    (tmp_path / "qwen3_8b" / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "senseless.json").write_text(json.dumps({**CONFIG, "num_hidden_layers": 0, "hidden_size": "wide"}))
    (tmp_path / "binary.json").write_bytes(b"\0\1\2")
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(70 * 10**6)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "lengths.csv").write_text("id,tokens\n1,812\n2,4096\n3,300\n")
    (tmp_path / "lengths.jsonl").write_text('{"length": 7}\n{"length": 9}\n')
    (tmp_path / "words.csv").write_text("tokens\nmany\n-7\n12\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "latency.csv").write_text("tp,context,batch,ms\n1,512,1,7.1\n1,512,64,9\n1,8192,1,7.3\n1,8192,64,14.2\n")
    (tmp_path / "hole.csv").write_text("tp,context,batch,ms\n1,512,1,7.1\n1,512,64,9\n1,8192,1,7.3\n")
    return tmp_path


def raw(model: object = "Qwen3-8B", lengths: object = LENGTHS, **split: object) -> dict[str, Any]:
    """A scenario with one job in depth, as YAML has it."""
    return {
        "name": "deep",
        "pools": {"a": {"gpu": "H100", "nodes": 1, "price": "3 $/h", "memory": "2 TB"}},
        "jobs": [{"name": "grpo", "split": {"model": model, "workload": {"prompts": 4, "lengths": lengths}, **split}}],
    }


def load(folder: Path, content: object) -> Scenario:
    """Write a scenario into the folder and read it as the command line does."""
    (folder / "scenario.yaml").write_text(yaml.safe_dump(content))
    return Scenario.load(folder / "scenario.yaml")


def findings(folder: Path, content: object) -> list[str]:
    """What a user reads when it is refused."""
    with pytest.raises(InputError) as refused:
        load(folder, content)
    return [str(finding) for finding in refused.value.findings]


# What is read.


@pytest.mark.parametrize("config", ["qwen3_8b/config.json", "qwen3_8b", "./qwen3_8b/../qwen3_8b/config.json"])
def test_a_config_is_read_beside_the_scenario(folder: Path, config: str) -> None:
    """As a file or as the directory that holds it; the directory gives the name."""
    split = load(folder, raw({"config": config})).jobs[0].split
    assert split is not None
    assert split.model == architecture("Qwen3-8B").model_copy(update={"name": "qwen3_8b"})


def test_an_absolute_path_and_a_name_of_ones_own_are_fine(folder: Path) -> None:
    """The scenario may lie elsewhere."""
    split = load(folder, raw({"config": str(folder / "qwen3_8b" / "config.json"), "name": "ours"})).jobs[0].split
    assert split is not None
    assert split.model is not None
    assert split.model.name == "ours"


@pytest.mark.parametrize(
    ("lengths", "tokens"),
    [
        ({"file": "lengths.csv"}, (812, 4096, 300)),
        ({"file": "lengths.csv", "column": "id", "limit": 2}, (1, 2, 3)),
        ({"file": "lengths.jsonl", "column": "length"}, (7, 9)),
    ],
)
def test_lengths_are_read_beside_the_scenario(folder: Path, lengths: dict[str, object], tokens: tuple[int, ...]) -> None:
    """CSV or JSON lines; what else stands there is kept."""
    split = load(folder, raw(lengths=lengths)).jobs[0].split
    assert split is not None
    assert split.workload is not None
    assert split.workload.lengths.trace == tokens
    assert split.workload.lengths.limit_tokens == lengths.get("limit")


def test_a_scenario_with_its_files_is_the_one_with_their_content(folder: Path) -> None:
    """Same hash, same meaning: nobody needs the files again."""
    files = load(folder, raw({"config": "qwen3_8b"}, {"file": "lengths.csv"}, engine={"latency": {"file": "latency.csv"}}))
    table = {1: {"contexts": [512, 8192], "batches": [1, 64], "ms": [[7.1, 7.3], [9.0, 14.2]]}}
    model = architecture("Qwen3-8B").model_copy(update={"name": "qwen3_8b"}).model_dump(exclude_unset=True)
    written = load(folder, raw(model, {"trace": [812, 4096, 300]}, engine={"latency": table}))
    assert files == written
    assert files.sha256() == written.sha256()


def test_scenarios_without_files_are_left_alone(folder: Path) -> None:
    """A reference model by name, a law in words."""
    assert load(folder, raw()) == Scenario.from_dict(raw())


# What is refused.

MODELS = {
    "missing": ({"config": "nowhere.json"}, "model.config = `nowhere.json`: does not exist; give the path of a config.json file"),
    "broken": ({"config": "broken.json"}, "model.config = `broken.json`: is not JSON; give the config.json of a model"),
    "list": ({"config": "list.json"}, "model.config = `list.json`: is not a mapping; give the config.json of a model"),
    "binary": ({"config": "binary.json"}, "model.config = `binary.json`: is a binary file; a config.json is a text file"),
    "huge": ({"config": "huge.json"}, "model.config = `huge.json`: is larger than 64 MiB; a config.json is a small text file"),
    "pipe": ({"config": "pipe"}, "model.config = `pipe`: is not a regular file; give the path of a config.json file"),
    "device": ({"config": "/dev/zero"}, "model.config = `/dev/zero`: is not a regular file; give the path of a config.json file"),
    "too long": (
        {"config": "x" * 400},
        f"model.config = `{'x' * 57}...`: cannot be read (File name too long); check the path and its permissions",
    ),
    "number": ({"config": 3}, "model.config = `3`: is not a path; write the path of a config.json"),
    "nothing": ({"config": None}, "model.config = null: is not a path; write the path of a config.json"),
    "blank": ({"config": " "}, "model.config = ` `: is not a path; write the path of a config.json"),
    "list of paths": ({"config": ["a"]}, "model.config = [1 items]: is not a path; write the path of a config.json"),
    "zero byte": ({"config": "a\0b"}, "model.config = `a\\x00b`: is not a path; write the path of a config.json"),
    "other keys": (
        {"config": "qwen3_8b", "layers": 3},
        "model.layers = `3`: cannot stand beside `config`; give `config` and, if you like, `name`",
    ),
    "name": (
        {"config": "qwen3_8b", "name": 3},
        "model.name = `3`: is not a name; write text of at most 100 characters, or leave it out",
    ),
}


@pytest.mark.parametrize(("model", "says"), MODELS.values(), ids=MODELS)
def test_a_config_that_cannot_be_used_is_refused_where_it_is_named(folder: Path, model: object, says: str) -> None:
    """The key of the scenario, what stands there, why, and the way out."""
    assert findings(folder, raw(model)) == [f"jobs[0].split.{says}"]


def test_faults_inside_a_config_are_told_all_at_once(folder: Path) -> None:
    """With the key of the file behind that of the scenario."""
    assert findings(folder, raw({"config": "senseless.json"})) == [
        "jobs[0].split.model.config, num_hidden_layers = `0`: input should be greater than or equal to 1; raise it to the limit",
        "jobs[0].split.model.config, hidden_size = `wide`: is not a whole number; write a whole number, without unit or quotes",
    ]


TRACES = {
    "missing": ({"file": "nowhere.csv"}, ["file = `nowhere.csv`: does not exist; give the path of a trace file"]),
    "directory": ({"file": "qwen3_8b"}, ["file = `qwen3_8b`: is a directory; give the trace file inside it"]),
    "pipe": ({"file": "pipe"}, ["file = `pipe`: is not a regular file; give the path of a trace file"]),
    "column": ({"file": "lengths.csv", "column": "token"}, ["file, token: is not in the header; did you mean `tokens`?"]),
    "empty": ({"file": "empty.csv"}, ["file, tokens: is not in the header; choose from no names"]),
    "number": ({"file": 3}, ["file = `3`: is not text; write the path of a CSV or JSONL file"]),
    "words": (
        {"file": "words.csv"},
        [
            f"file, line {line}, tokens = `{value}`: is not a number of tokens; write a whole number from 1 to 10,000,000, "
            "and leave rows without a response out"
            for line, value in ((2, "many"), (3, "-7"))
        ],
    ),
}


@pytest.mark.parametrize(("lengths", "says"), TRACES.values(), ids=TRACES)
def test_a_trace_that_cannot_be_used_is_refused_where_it_is_named(folder: Path, lengths: object, says: list[str]) -> None:
    """Row by row where rows are at fault."""
    assert findings(folder, raw(lengths=lengths)) == [f"jobs[0].split.workload.lengths.{said}" for said in says]


def test_a_trace_in_a_file_and_in_place_is_one_too_many(folder: Path) -> None:
    """The fault is that of the mapping."""
    assert findings(folder, raw(lengths={"file": "lengths.csv", "trace": [1]})) == [
        "jobs[0].split.workload.lengths: gives `file` and `trace`; keep one of the two"
    ]


@pytest.mark.parametrize(
    ("latency", "says"),
    [
        ({"file": "nowhere.csv"}, "file = `nowhere.csv`: does not exist; give the path of a latency table file"),
        ({"file": 3}, "file = `3`: is not text; write the path of a CSV file or a profile"),
        ({"file": "hole.csv"}, "file, tp 1: has no row for batch 64 at context 8192; measure every pair"),
        (
            {"file": "lengths.csv"},
            "file = `lengths.csv`: has no column tp, context, batch, ms; give the columns tp, context, batch, ms",
        ),
    ],
)
def test_a_latency_that_cannot_be_used_is_refused_where_it_is_named(folder: Path, latency: object, says: str) -> None:
    """As for the other files."""
    assert findings(folder, raw(engine={"latency": latency})) == [f"jobs[0].split.engine.latency.{says}"]


def test_the_files_of_all_jobs_are_looked_at_before_refusing(folder: Path) -> None:
    """One run is enough to correct a scenario."""
    content = raw({"config": "nowhere.json"}, {"file": "nowhere.csv"})
    content["jobs"].append({"name": "other", "split": {"model": {"config": "gone.json"}}})
    assert [line.split(" = ")[0] for line in findings(folder, content)] == [
        "jobs[0].split.model.config",
        "jobs[0].split.workload.lengths.file",
        "jobs[1].split.model.config",
    ]


@pytest.mark.parametrize("jobs", ["none", {"a": 1}, [1, None, "x"], [{"split": [1]}], [{"split": {"workload": 3, "engine": [1]}}]])
def test_what_has_another_shape_is_left_to_validation(folder: Path, jobs: object) -> None:
    """Findings, never a traceback, whatever stands in place of a job."""
    assert findings(folder, {**raw(), "jobs": jobs})


# A scenario as plain data.

FORMS: dict[str, dict[str, Any]] = {
    "model by name": raw(),
    "law by name": raw(lengths="7B-8k"),
    "quantiles": raw(lengths={"quantiles": {0.5: 800, 0.9: 3000}, "limit": 8192}),
    "histogram": raw(lengths={"histogram": {"edges": [0, 1000, 4000], "shares": [0.7, 0.3]}}),
    "clip": raw(lengths={"mean": 2600, "clip": 0.04, "limit": 8192}),
    "everything": raw(
        budget={"a": 6},
        rollout={"a": {4: "400 s", 2: "0.1 h"}},
        train={"a": {4: "90500 ms"}},
        engine={"tp": [1, 2], "ptl": {1: "8.4 ms", 64: "11.7 ms"}, "dispatch": "lpt", "max_num_seqs": 128},
        trainer={"tp": [2], "sharding": "zero1", "mfu": 0.3, "overhead": "2 s", "lora_rank": 16, "loss_chunk": 1024},
        sync="1.1 s",
        switch="100 ms",
        pipelining=["serial", "async-batch"],
        staleness=0.5,
        chunks=4,
        chunk_overhead="1e-3 s",
        interference={"rollout": 1.1},
        objective="cost",
        target="3 min",
        noise=0.02,
        trim="paper",
    ),
}


def same_again(scenario: Scenario) -> None:
    """From JSON text, as it stands in a plan file."""
    again = Scenario.from_dict(json.loads(json.dumps(scenario.content())))
    assert again == scenario
    assert again.sha256() == scenario.sha256()
    assert again.content() == scenario.content()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_example_comes_back_from_its_content(path: Path) -> None:
    """The plan file carries the scenario; `what-if` and others read it from there."""
    same_again(Scenario.load(path))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_of_a_split_comes_back_from_its_content(form: dict[str, Any]) -> None:
    """Number keys become text in JSON, units are written out, names become architectures."""
    same_again(Scenario.from_dict(form))


def test_the_co_location_scenario_comes_back_from_its_content(scenario_text: str) -> None:
    """Shorthands, links, profiles of the small scenario that other tests use."""
    same_again(Scenario.from_yaml(scenario_text))


def test_content_holds_only_what_was_given() -> None:
    """Defaults of a later version must not be frozen into today's plans."""
    content = Scenario.from_dict(raw()).content()
    assert content["pools"] == {"a": {"gpu": "H100", "nodes": 1, "price": "3.0 $/h", "memory": f"{2e12 / 2**30!r} GiB"}}
    assert content["jobs"][0]["split"].keys() == {"model", "workload"}
    assert content["jobs"][0]["split"]["workload"]["lengths"] == {"mean": 3000.0, "sigma": 0.8, "limit": 16384.0}


@given(st.sampled_from([DURATION, MEMORY, PRICE, BANDWIDTH, PARAMETERS]), st.floats(0, 1), st.integers(-9, 9))
def test_quantities_are_written_so_that_not_a_bit_is_lost(unit: Unit, number: float, power: int) -> None:
    """Very small ones have exponents, which must be read again."""
    value = min(unit.high, max(unit.low, number * 10.0**power))
    inside = next(name for name, factor in unit.factors.items() if factor == 1.0)
    assert unit.parse(f"{value!r} {inside}") == value


@given(st.floats(1e-4, 1e6), st.floats(0, 1e6), st.floats(1e-6, 1e6))
def test_pools_and_links_come_back_to_the_bit(price: float, memory: float, bandwidth: float) -> None:
    """The hash is made from these numbers."""
    pool = Pool.build({"gpu": "H100", "price": f"{price!r} $/h", "memory": f"{memory!r} GiB"}, "pool")
    assert Pool.build(pool.model_dump(mode="json", by_alias=True, exclude_unset=True), "pool") == pool
    link = Link.build({"from": "a", "to": "b", "bandwidth": f"{bandwidth!r} GB/s"}, "link")
    assert Link.build(link.model_dump(mode="json", by_alias=True, exclude_unset=True), "link") == link
