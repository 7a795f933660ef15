"""A run of its own never listens on anything but the loopback."""

from __future__ import annotations

import pytest

from rollplan.executor.shell.environment import for_ray

SWITCH = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


@pytest.mark.parametrize("address", [None, "127.0.0.1:6379", "localhost:6379", "[::1]:6379"])
def test_ray_stays_on_the_loopback_where_the_run_does(address: str | None) -> None:
    assert for_ray(address)[SWITCH] == "0"


@pytest.mark.parametrize("address", ["10.0.0.1:6379", "head:6379", "auto", "ray://head:10001"])
def test_a_cluster_keeps_its_own_addresses(address: str) -> None:
    assert SWITCH not in for_ray(address)
    assert for_ray(address)["RAY_USAGE_STATS_ENABLED"] == "0"
