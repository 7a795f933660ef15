"""A run in the text format of Prometheus, on the loopback address only, and only if somebody asks for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Self

from rollplan.executor.core.records import Record, Remark
from rollplan.models.errors import Finding, InputError

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_HELP = {
    "rollplan_permit_held": ("gauge", "1 where a job holds the permit of a resource"),
    "rollplan_queue_length": ("gauge", "jobs that wait for the permit of a resource"),
    "rollplan_iterations_finished": ("gauge", "iterations that are trained and saved"),
    "rollplan_iterations_wanted": ("gauge", "iterations that the job shall run"),
    "rollplan_job_state": ("gauge", "1 for the state that the job is in"),
    "rollplan_held_bytes": ("gauge", "host memory that a job was last seen to hold on a node of a resource"),
    "rollplan_phase_seconds": ("summary", "seconds of phases, by job, resource and kind"),
    "rollplan_remarks_total": ("counter", "remarks so far: restarts, stopped jobs, fallbacks"),
}
"""Type and help of every metric."""


class Metrics:
    """A watcher that keeps the newest numbers; `text` may be asked from another thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._state: Mapping[str, Any] = {}
        self._seconds: dict[tuple[str, str, str], tuple[float, int]] = defaultdict(lambda: (0.0, 0))
        self._remarks = 0

    def record(self, record: Record) -> None:
        """Count a stretch of work."""
        key = (record.job, record.resource, record.kind)
        with self._lock:
            seconds, count = self._seconds[key]
            self._seconds[key] = (seconds + record.seconds, count + 1)

    def remark(self, remark: Remark) -> None:
        """Count a remark."""
        with self._lock:
            self._remarks += 1

    def state(self, state: Mapping[str, Any]) -> None:
        """Keep the newest state."""
        with self._lock:
            self._state = state

    def tick(self) -> None:
        """Do nothing: whoever wants numbers asks."""

    def text(self) -> str:
        """Return the exposition."""
        with self._lock:
            samples = list(self._samples())
        lines = []
        for name, (kind, help_text) in _HELP.items():
            own = [(suffix, labels, value) for metric, suffix, labels, value in samples if metric == name]
            if own:
                lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
                lines += [f"{name}{suffix}{_labels(labels)} {value:.12g}" for suffix, labels, value in own]
        return "\n".join(lines) + "\n"

    def _samples(self) -> Iterator[tuple[str, str, dict[str, str], float]]:
        """Yield metric, suffix, labels and value of every sample."""
        for name, resource in self._state.get("resources", {}).items():
            if resource.get("holder"):
                yield "rollplan_permit_held", "", {"resource": name, "job": resource["holder"]}, 1
            yield "rollplan_queue_length", "", {"resource": name}, len(resource.get("queue", ()))
        for name, job in self._state.get("jobs", {}).items():
            yield "rollplan_iterations_finished", "", {"job": name}, job["iteration"]
            yield "rollplan_iterations_wanted", "", {"job": name}, job["iterations"]
            yield "rollplan_job_state", "", {"job": name, "state": job["state"]}, 1
        for resource, jobs in self._state.get("memory", {}).items():
            for job, held in jobs.items():
                yield "rollplan_held_bytes", "", {"job": job, "resource": resource}, held
        for (job, resource, kind), (seconds, count) in sorted(self._seconds.items()):
            labels = {"job": job, "resource": resource, "phase": kind}
            yield "rollplan_phase_seconds", "_sum", labels, seconds
            yield "rollplan_phase_seconds", "_count", labels, count
        yield "rollplan_remarks_total", "", {}, self._remarks


class MetricsServer:
    """Serves `http://127.0.0.1:PORT/metrics` while the context lasts. port: 0 for a free one; `port` says which it became."""

    def __init__(self, metrics: Metrics, port: int) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = self.path.split("?")[0] == "/metrics"
                body = (metrics.text() if found else "see /metrics\n").encode()
                # Whoever asked may have gone away.
                with suppress(ConnectionError):
                    self.send_response(200 if found else 404)
                    self.send_header("Content-Type", CONTENT_TYPE)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except OSError as error:
            remedy = "choose another port, or 0 for a free one"
            raise InputError("run", [Finding("--metrics-port", f"`{port}`", f"cannot be used ({error.strerror})", remedy)]) from None
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> Self:
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
