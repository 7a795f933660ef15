"""Metrics are text that Prometheus reads, on the loopback address only."""

from __future__ import annotations

import re
import socket
import struct
import urllib.error
import urllib.request

import pytest

from rollplan.executor.core.records import Remark
from rollplan.executor.prometheus import CONTENT_TYPE, Metrics, MetricsServer
from rollplan.models.errors import InputError

from .made import record

STATE = {
    "resources": {"g1/train": {"holder": "a", "does": "training 1", "queue": ["b"], "lost": False}},
    "jobs": {'odd "name"': {"state": "running", "iteration": 2, "iterations": 5}},
    "memory": {"g1/train": {"a": 1024}},
}


def filled() -> Metrics:
    metrics = Metrics()
    metrics.state(STATE)
    metrics.record(record("train", 0.0, 2.0))
    metrics.record(record("train", 3.0, 4.5))
    metrics.remark(Remark(1.0, None, "hello"))
    return metrics


def test_the_exposition_says_what_happens() -> None:
    """Permits, queues, iterations, memory, sums and counts of phases, remarks; labels are escaped."""
    text = filled().text()
    for line in (
        'rollplan_permit_held{resource="g1/train",job="a"} 1',
        'rollplan_queue_length{resource="g1/train"} 1',
        'rollplan_iterations_finished{job="odd \\"name\\""} 2',
        'rollplan_held_bytes{job="a",resource="g1/train"} 1024',
        'rollplan_phase_seconds_sum{job="a",resource="g1/train",phase="train"} 3.5',
        'rollplan_phase_seconds_count{job="a",resource="g1/train",phase="train"} 2',
        "rollplan_remarks_total 1",
    ):
        assert line in text.splitlines()


def test_every_line_has_the_form_of_the_format() -> None:
    """HELP and TYPE once per metric, before its samples (text format 0.0.4)."""
    seen: list[str] = []
    for line in filled().text().splitlines():
        if line.startswith("# TYPE "):
            seen.append(line.split()[2])
        elif not line.startswith("# HELP "):
            found = re.fullmatch(r'([a-z_]+)(\{[a-z]+="(\\.|[^"\\])*"(,[a-z]+="(\\.|[^"\\])*")*\})? [0-9.e+-]+', line)
            assert found, line
            assert found[1].startswith(seen[-1])
    assert len(seen) == len(set(seen))
    assert Metrics().text() == "# HELP rollplan_remarks_total remarks so far: restarts, stopped jobs, fallbacks\n# TYPE " + (
        "rollplan_remarks_total counter\nrollplan_remarks_total 0\n"
    )


def test_it_is_served_on_loopback_while_the_run_lasts() -> None:
    """And nowhere else, and no longer; a port in use is refused."""
    with MetricsServer(filled(), 0) as server:
        assert server._server.server_address[0] == "127.0.0.1"
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=10) as answer:
            assert answer.headers["Content-Type"] == CONTENT_TYPE
            assert b"rollplan_permit_held" in answer.read()
        with pytest.raises(urllib.error.HTTPError) as missing:
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/", timeout=10)
        missing.value.close()
        with pytest.raises(InputError, match=r"--metrics-port = .*: cannot be used"):
            MetricsServer(Metrics(), server.port)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=10)


def test_somebody_who_goes_away_is_no_news(capfd: pytest.CaptureFixture[str]) -> None:
    """He closes before the answer is written; nothing is printed, and the next one is answered."""
    metrics = Metrics()
    for number in range(20_000):
        metrics.record(record("train", 0.0, 1.0, job=f"job-{number}"))
    with MetricsServer(metrics, 0) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as gone:
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            gone.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=10) as answer:
            assert b"job-19999" in answer.read()
    assert capfd.readouterr().err == ""
