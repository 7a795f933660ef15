"""GPUs by name: memory, peak speed, link.

Memory is what a program can have at most. Where the system file of NVIDIA's aiconfigurator-core states it, that is used:
what nvidia-smi reports for GB200, B300, L40S and RTX PRO 6000, the advertised GB as GiB for A100, H100, H200 and B200.
H800, A800 and H20 follow the second rule like their sisters; A10 and MI300X count the advertised GB as 10^9 bytes.
nvidia-smi shows up to 0.5 % less than these numbers; engines leave 5 to 10 % free anyway.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from rollplan.models.accelerator import Gpu
from rollplan.models.reference.tables import rows, unknown

_DECORATION = re.compile(r"nvidia|amd|instinct|tensor|core|gpu|sxm\d?|hgx|hbm\d?e?|oam|blackwell|server|edition")
_MEMORY = re.compile(r"(\d+)(gb|gib|g)")


def gpu_names() -> tuple[str, ...]:
    """Return the names of all GPUs, in the order of the table."""
    return tuple(_gpus())


def gpu_name(text: str) -> str:
    """Return the table's name of the GPU that a user means: `h100_sxm`, `H100-80GB`, `NVIDIA H100 80GB HBM3` are `H100`.

    A memory size must be that of the part: there is an A100 with 40 GB, too. Raise `InputError` for an unknown name.
    """
    words = [word for word in re.split(r"[\s_\-/:()]+", text.lower()) if word and not _DECORATION.fullmatch(word)]
    sizes = [found[1] for word in words if (found := _MEMORY.fullmatch(word))]
    key = "".join(word for word in words if not _MEMORY.fullmatch(word))
    for name, (_, advertised_gb) in _gpus().items():
        if key == name.lower().replace("-", "") and set(sizes) <= {advertised_gb}:
            return name
    raise unknown("gpu", text, gpu_names(), "measure a profile on it, because no published number is used for it")


def gpu(name: str) -> Gpu:
    """Return the GPU that a user means, see `gpu_name`; raise `InputError` for an unknown name."""
    return _gpus()[gpu_name(name)][0]


@cache
def _gpus() -> Mapping[str, tuple[Gpu, str]]:
    """Return the GPUs and their advertised GB by name."""
    numbers = ("memory_gib", "peak_tflops", "memory_tb_s", "link_gb_s")
    return {
        row["gpu"]: (Gpu(name=row["gpu"], **{key: float(row[key]) for key in numbers}), row["advertised_gb"]) for row in rows("gpus.csv")
    }
