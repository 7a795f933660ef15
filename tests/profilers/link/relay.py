"""A cable with a delay, for kernels without netem: two TUN devices, and a process that hands packets over so much later.

    python relay.py DEVICE NAMESPACE DEVICE NAMESPACE DELAY_S

makes both devices, moves each into its network namespace, prints a line, and relays until it is killed.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_MTU = 65535


def device(name: str, namespace: str) -> int:
    """Make a TUN device in another namespace; return the end that this process reads and writes."""
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH", name.encode(), _IFF_TUN | _IFF_NO_PI))
    subprocess.run(["ip", "link", "set", name, "netns", namespace], check=True)
    return end


def relay(one: int, other: int, delay_s: float) -> None:
    """Hand packets over in both directions, in order, each `delay_s` after it came."""
    towards = {one: other, other: one}
    under_way: dict[int, deque[tuple[float, bytes]]] = {one: deque(), other: deque()}
    while True:
        due = [queue[0][0] for queue in under_way.values() if queue]
        wait_s = None if not due else max(min(due) - time.monotonic(), 0)
        readable, _, _ = select.select([one, other], [], [], wait_s)
        now = time.monotonic()
        for end in readable:
            with suppress(BlockingIOError):
                while True:
                    under_way[towards[end]].append((now + delay_s, os.read(end, _MTU)))
        for end, queue in under_way.items():
            while queue and queue[0][0] <= now:
                # A device that is not up yet loses the packet, like a real cable.
                with suppress(OSError):
                    os.write(end, queue.popleft()[1])


if __name__ == "__main__":
    # Who waits for a core makes the cable longer.
    with suppress(PermissionError):
        os.nice(-10)
    ends = [device(*sys.argv[1:3]), device(*sys.argv[3:5])]
    print("ready", flush=True)
    relay(*ends, float(sys.argv[5]))
