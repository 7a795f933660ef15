"""Ends and removes what a driver leaves behind when it is killed: `python -m rollplan.executor.shell.reaper NAME TEMP`.

The driver starts it. It waits for the end of its stdin, which only the driver holds. Most of Ray ends by itself then, but
some of it takes a minute.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

from rollplan.executor.shell import processes


def start(temp: Path) -> subprocess.Popen[bytes]:
    """Mark all that this process starts from now on, and have it ended with this process. Keep the answer until then.

    temp: folder for what that writes; it is removed as well.
    """
    name = uuid.uuid4().hex
    os.environ[processes.DRIVER_MARK] = name
    return subprocess.Popen(
        [sys.executable, "-m", "rollplan.executor.shell.reaper", name, str(temp)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


if __name__ == "__main__":
    sys.stdin.buffer.read()
    processes.end_with(sys.argv[1])
    shutil.rmtree(sys.argv[2], ignore_errors=True)
