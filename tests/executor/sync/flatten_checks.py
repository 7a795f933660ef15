"""Checks of weights as bytes, for an interpreter with torch; `test_flatten.py` runs them and has one test for each."""

from __future__ import annotations

import json
import random
import traceback
from itertools import pairwise

import torch

from rollplan.executor.sync.errors import WrongWeightsError
from rollplan.executor.sync.flatten import _DTYPES, Layout, checksum


def some_weights(seed: int) -> dict[str, torch.Tensor]:
    """Return tensors of random types and shapes, some of them not in order in memory."""
    choose = random.Random(seed)
    made = {}
    for number in range(choose.randint(1, 12)):
        shape = [choose.randint(0, 9) for _ in range(choose.randint(0, 3))]
        raw = torch.randint(0, 256, (*shape, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed + number))
        dtype = _DTYPES[choose.choice(list(_DTYPES))]
        tensor = raw[..., : dtype.itemsize].contiguous().view(dtype)[..., 0] if dtype != torch.bool else raw[..., 0] > 127
        made[choose.choice("abcdefgh") + f".{number}"] = tensor.transpose(0, 1) if tensor.dim() > 1 and choose.random() < 0.5 else tensor
    return made | {"last": torch.ones(1)}


def raw(tensor: torch.Tensor) -> list[int]:
    """Return the bytes of a tensor: not a number is not equal to itself."""
    return torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.reshape(-1)).view(torch.uint8).tolist()


def refusal(call: object, *given: object) -> str:
    """Return what a call that must be refused says."""
    try:
        call(*given)  # type: ignore[operator]
    except WrongWeightsError as error:
        return str(error)
    raise AssertionError("it was not refused")


def check_what_is_written_in_any_parts_is_read_back_bit_by_bit() -> None:
    for seed in range(200):
        weights = some_weights(seed)
        layout = Layout.of(weights)
        choose = random.Random(-seed)
        bounds = sorted({0, layout.size, *(choose.randint(0, layout.size) for _ in range(choose.randint(0, 6)))})
        buffer = torch.full((layout.size,), 0xAA, dtype=torch.uint8)
        for first, last in pairwise(bounds):
            layout.write(weights, first, last, buffer[first:last])
        back = Layout.from_json(layout.to_json()).read(buffer)
        assert back.keys() == weights.keys()
        for name, tensor in weights.items():
            assert (back[name].dtype, back[name].shape, raw(back[name])) == (tensor.dtype, tensor.shape, raw(tensor)), (seed, name)


def check_the_bytes_have_no_gaps_and_do_not_depend_on_the_order_of_names() -> None:
    for seed in range(50):
        weights = some_weights(seed)
        layout = Layout.of(weights)
        assert layout == Layout.of(dict(reversed(weights.items())))
        ends = [0, *(entry.last for entry in layout.entries)]
        assert [entry.first for entry in layout.entries] == ends[:-1]
        assert layout.size == sum(tensor.numel() * tensor.element_size() for tensor in weights.values())


def check_what_is_read_is_the_received_memory_itself() -> None:
    layout = Layout.of({"a": torch.zeros(10), "b": torch.zeros(3, dtype=torch.int8)})
    buffer = torch.zeros(layout.size, dtype=torch.uint8)
    layout.read(buffer)["a"][0] = 1.0
    assert buffer[:4].view(torch.float32).item() == 1.0


def check_another_name_type_or_shape_is_refused_by_name() -> None:
    known = {"a": torch.zeros(2, 3), "b": torch.zeros(4)}
    layout = Layout.of(known)
    layout.check({"b": torch.ones(4), "a": torch.ones(2, 3)})
    assert "a: ('float32', [3, 2]) after ('float32', [2, 3])" in refusal(layout.check, known | {"a": torch.zeros(3, 2)})
    assert "b: ('float16', [4]) after ('float32', [4])" in refusal(layout.check, known | {"b": torch.zeros(4).half()})
    assert "c: ('float32', [1]) after nothing" in refusal(layout.check, known | {"c": torch.zeros(1)})
    assert "b: missing after" in refusal(layout.check, {"a": known["a"]})


def check_what_cannot_be_sent_is_refused_by_name() -> None:
    assert "the weights are empty" in refusal(Layout.of, {"a": torch.zeros(0)})
    assert "z is complex64" in refusal(Layout.of, {"z": torch.zeros(1, dtype=torch.complex64)})
    assert "s is float32, torch.sparse_coo" in refusal(Layout.of, {"s": torch.eye(3).to_sparse()})
    assert "m is float32, torch.strided, on meta" in refusal(Layout.of, {"m": torch.zeros(3, device="meta")})


def check_every_single_changed_word_changes_the_checksum() -> None:
    content = torch.randint(0, 256, (700_003,), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    right = checksum(content)
    choose = random.Random(2)
    for place in [0, 7, 8, 262_143, 262_144, 700_000, 700_002, *(choose.randrange(700_003) for _ in range(100))]:
        for bit in range(8):
            content[place] ^= 1 << bit
            assert checksum(content) != right, (place, bit)
            content[place] ^= 1 << bit
    assert checksum(content) == right


def check_lost_and_exchanged_bytes_change_the_checksum() -> None:
    content = torch.randint(0, 256, (1 << 20,), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    half = 1 << 19
    others = [content[:-1], torch.cat([content, torch.zeros(1, dtype=torch.uint8)]), torch.cat([content[half:], content[:half]])]
    words = content.view(torch.int64).clone()
    words[[0, 1]] = words[[1, 0]]
    assert len({checksum(other) for other in (content, *others, words.view(torch.uint8))}) == 5
    assert checksum(torch.zeros(8, dtype=torch.uint8)) != checksum(torch.zeros(16, dtype=torch.uint8))


def check_the_checksum_is_that_of_its_definition() -> None:
    for size in (0, 1, 8, 100, 262_144, 600_000):
        content = torch.randint(0, 256, (size,), dtype=torch.uint8, generator=torch.Generator().manual_seed(size))
        data = bytes(content.tolist())
        words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, size // 8 * 8, 8)]
        row = 1 << 15
        full = len(words) // row * row
        rows = [words[at : at + row] for at in range(0, full, row)] + [words[full:], [int.from_bytes(data[size // 8 * 8 :], "little")]]
        value = size
        for one in rows:
            value = (value * 0x9E3779B97F4A7C15 + sum((2 * i + 1) * word for i, word in enumerate(one))) % 2**64
        assert checksum(content) % 2**64 == value, size


def main() -> None:
    """Print the name of every check, and what went wrong."""
    torch.set_num_threads(1)
    found = {}
    for name, check in list(globals().items()):
        if name.startswith("check_"):
            try:
                check()
                found[name] = ""
            except Exception:
                found[name] = traceback.format_exc()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
