"""Environment variables that Ray reads when it is imported."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

_ALWAYS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    # Else the names that Ray gives its processes may overwrite their environment, by which `processes` finds them.
    "SPT_NOENV": "1",
    # Jobs share devices in turns; `seat.see_only` says which.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Ray's memory monitor kills whatever it likes; the core stops the job that is over its own footprint.
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_process_group_cleanup_enabled": "1",
}
_ALONE = {
    # Without its server a driver waits a minute; whoever started the driver starts it again at once.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "5",
}
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Ray takes 127.0.0.1 for "some address of this machine" and listens on all of them, except where it thinks no cluster can be."""


def for_ray(address: str | None) -> Mapping[str, str]:
    """Return what to set for a cluster at `host:port`, None for one of this process alone, which stays on the loopback."""
    if address is None:
        return {**_ALWAYS, **_LOOPBACK, **_ALONE}
    return {**_ALWAYS, **_LOOPBACK} if _is_loopback(address) else _ALWAYS


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
