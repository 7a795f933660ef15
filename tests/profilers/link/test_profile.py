"""The front door of the link profiler, with a worker that is made up: options, refusals, the file, the screen."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rollplan.models.errors import InputError
from rollplan.models.profile.file import Profile
from rollplan.profilers.link.profile import LinkRequest
from rollplan.profilers.worker import failure

Cli = Callable[..., Any]
SIZES = (8, 2 * 10**6, 8 * 10**6, 32 * 10**6)


def answer(stream_gb_s: float, total_gb_s: float, interface: str = "eth0", repeats: int = 3) -> dict[str, Any]:
    """Return what rank 0 says of a link of 5 ms."""

    def sample(kind: str, size: int, streams: int, ranks: int) -> dict[str, Any]:
        seconds = 0.01 + size / 1e9 / min(streams * stream_gb_s, total_gb_s)
        return {"kind": kind, "bytes": size, "streams": streams, "ranks": ranks, "seconds": [seconds] * repeats}

    samples = [sample("point_to_point", size, 1, 2) for size in SIZES]
    samples += [sample("streams", size, streams, 2) for streams in (2, 4) for size in SIZES[2:]]
    samples += [sample("broadcast", size, 1, 2) for size in SIZES[1:]]
    return {"rank": 0, "backend": "gloo", "interface": interface, "device": "CPU", "versions": {"torch": "2.13.0"}, "samples": samples}


def spoiled(said: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with broadcasts that take the same time for any size."""
    for sample in said["samples"]:
        if sample["kind"] == "broadcast":
            sample["seconds"] = [1.0] * 3
    return said


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], list[Mapping[str, Any]]]:
    """Return a function that sets what the worker says, and gives the requests that it will have had."""

    def says(what: Any) -> list[Mapping[str, Any]]:
        requests: list[Mapping[str, Any]] = []

        def ask(module: str, request: Mapping[str, Any], *_: Any, on_line: Callable[[str], None], **__: Any) -> Any:
            assert module == "rollplan.profilers.link.worker"
            requests.append(json.loads(json.dumps(request)))
            on_line("[W socket.cpp] a warning of torch")
            on_line("rollplan: 2 ranks, gloo over eth0")
            if isinstance(what, Exception):
                raise what
            return what

        monkeypatch.setattr("rollplan.profilers.worker.ask", ask)
        return requests

    return says


def test_the_profile_on_file_is_the_one_that_was_shown(cli: Cli, worker: Any, folder: Path) -> None:
    """Progress goes to stderr, without what torch has to say."""
    requests = worker(answer(0.02, 1))
    done = cli("profile", "link", "-o", "link.json", "--json")
    assert (done.code, done.err) == (
        0,
        "2 ranks, gloo over eth0\nprofile written to link.json; next: its line into `links` of a scenario\n",
    )
    profile = Profile.load(folder / "link.json")
    assert profile.to_json() == done.out
    assert (profile.origin.kind, profile.origin.engine, profile.warnings) == ("measured", "gloo", ())
    assert profile.link is not None
    assert (profile.link.law.limited, profile.link.law.latency_s) == ("per stream", pytest.approx(0.005))
    assert [requests[0][key] for key in ("rank", "ranks", "streams", "sizes", "host")] == [None, 2, [1, 2, 4], [], "127.0.0.1"]


def test_a_rank_of_several_machines_is_told_everything(cli: Cli, worker: Any) -> None:
    """Sizes are 10^6 bytes; one stream is always measured."""
    requests = worker({"rank": 1, "backend": "gloo", "interface": "eth1"})
    options = ("--ranks", 3, "--address", "10.0.0.1:29500", "--interface", "eth1", "--streams", "8,2", "--megabytes", "64,0.5")
    done = cli("profile", "link", "--rank", 1, *options, "--backend", "gloo", "--time-limit", 9)
    assert (done.code, done.out) == (0, "rank 1 is done; rank 0 has the profile\n")
    wanted = {"rank": 1, "ranks": 3, "host": "10.0.0.1", "port": 29500, "interface": "eth1", "backend": "gloo", "time_limit_s": 9.0}
    assert requests[0] == {**wanted, "streams": [1, 2, 8], "sizes": [500_000, 64_000_000], "wait_s": 600.0}
    assert json.loads(cli("profile", "link", "--rank", 1, *options, "--json").out) == {"rank": 1, "backend": "gloo", "interface": "eth1"}


def test_the_line_for_a_scenario_is_what_one_stream_gets(cli: Cli, worker: Any) -> None:
    """Where streams share a link, `bandwidth` is a share: sync uses as many streams as there are training GPUs."""
    worker(answer(0.02, 1))
    assert "- {from: TRAINING_POOL, to: ROLLOUT_POOL, bandwidth: 0.02 GB/s}\n" in cli("profile", "link").out
    worker(answer(0.04, 0.04))
    shown = cli("profile", "link").out
    assert "- {from: TRAINING_POOL, to: ROLLOUT_POOL, bandwidth: 0.005 GB/s}\n" in shown
    assert "for 8 training GPUs, which share 0.04 GB/s; for n write 0.04 / n, but at most 0.04 GB/s" in shown
    assert "0.04 GB/s together: one fills the link" in shown
    worker(answer(0.02, 0.03))
    assert "0.02 GB/s each, 0.03 GB/s together: 2 fill the link" in cli("profile", "link").out


@pytest.mark.parametrize(
    ("said", "warning"),
    [
        (answer(1, 1, "lo"), "all ranks were on this machine"),
        (answer(0.02, 1, repeats=2), "10 of 10 transfers were repeated less than three times"),
        (spoiled(answer(0.02, 1)), "broadcasts of more bytes do not take longer"),
        (answer(1, 1), "the longest transfer took less than 20 round trips"),
    ],
)
def test_a_measurement_that_says_little_says_so(cli: Cli, worker: Any, said: dict[str, Any], warning: str) -> None:
    """A number travels with its doubt."""
    worker(said)
    assert warning in json.loads(cli("profile", "link", "--json").out)["warnings"][0]


def test_what_the_worker_cannot_do_is_an_error_without_traceback(cli: Cli, worker: Any) -> None:
    """What is wrong and what to do about it, apart."""
    worker(failure("worker", "rank 1 did not come within 600 s; start it with --rank 1 --ranks 2"))
    done = cli("profile", "link")
    assert (done.code, done.out) == (2, "")
    assert "measurement: rank 1 did not come within 600 s; start it with --rank 1 --ranks 2\n" in done.err
    constant = answer(1, 1)
    for sample in constant["samples"]:
        sample["seconds"] = [1.0]
    worker(constant)
    done = cli("profile", "link")
    assert (done.code, "measure larger transfers with --megabytes" in done.err) == (2, True)


@pytest.mark.skipif(find_spec("torch") is not None, reason="this interpreter has torch")
def test_an_interpreter_without_torch_is_told_from_one_with_it(cli: Cli) -> None:
    """rollplan itself does without."""
    done = cli("profile", "link")
    assert (done.code, "cannot import torch" in done.err, "--python" in done.err) == (2, True, True)


def test_no_file_of_another_kind_is_overwritten(cli: Cli, worker: Any, folder: Path) -> None:
    """Before anything is measured; and only rank 0 has something to write."""
    requests = worker(answer(1, 1))
    (folder / "notes.txt").write_text("mine")
    assert cli("profile", "link", "-o", "notes.txt").code == 2
    done = cli("profile", "link", "--rank", 1, "--address", "h:1", "-o", "new.json")
    assert (done.code, "give it to rank 0" in done.err) == (2, True)
    assert (requests, (folder / "notes.txt").read_text()) == ([], "mine")
    assert cli("profile", "link", "-o", "notes.txt", "--force").code == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ranks": 1}, "--ranks = 1: is not 2 to 1024"),
        ({"rank": 2, "address": "h:1"}, "--rank = 2: is not 0 to 1"),
        ({"rank": 0}, "--address: is missing"),
        ({"address": "10.0.0.1:1"}, "--address = `10.0.0.1:1`: is for ranks on several machines"),
        ({"interface": "eth0"}, "--interface = `eth0`: is for ranks on several machines"),
        ({"rank": 0, "address": "10.0.0.1"}, "is not HOST:PORT"),
        ({"rank": 0, "address": "fe80::1:29500"}, "is not HOST:PORT"),
        ({"rank": 0, "address": "h:65536"}, "is not HOST:PORT"),
        ({"streams": [0]}, "--streams = 0: are not numbers from 1 to 64"),
        ({"sizes": [10**6]}, "--megabytes = 1: are not two or more sizes"),
        ({"sizes": [10**6, 1]}, "are not two or more sizes of at least 0.1"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_starts(wrong: dict[str, Any], message: str) -> None:
    """Every fault names the option."""
    with pytest.raises(InputError) as refused:
        LinkRequest(**wrong)
    assert message in str(refused.value)


@pytest.mark.parametrize("option", [("--streams", "1.5"), ("--streams", "many"), ("--megabytes", "nan,1"), ("--megabytes", "-1,2")])
def test_lists_that_are_none_are_refused(cli: Cli, option: tuple[str, str]) -> None:
    """Exit code 2, and an example."""
    done = cli("profile", "link", *option)
    assert (done.code, f"{option[0]} = `{option[1]}`: is not a list of" in done.err) == (2, True)
