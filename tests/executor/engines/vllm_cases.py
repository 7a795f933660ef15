"""Run by an interpreter with vLLM: drives one `VllmEngine` and prints what it saw as JSON. Arguments: case, folder.

`all`: an engine made from a config.json alone, whose weights are then replaced by those that are saved in folder/weights.
`fresh`: an engine that reads these weights itself.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rollplan.executor.engines.generation import Generated, Request, Sampling
from rollplan.executor.engines.vllm_engine import VllmEngine

SAMPLING = Sampling(temperature=1.0, seed=3, iteration=2)
LONG = tuple(range(2, 152))  # longer than a block of the KV cache, so that its prefix is cached
REQUESTS = [Request(n, (*LONG, 200 + n) if n % 2 else (5, 6, 7 + n), 60 - 6 * n) for n in range(8)]


def never() -> bool:
    return False


def engine(folder: Path, **changed: Any) -> VllmEngine:
    given = {"weights": "dummy", "slots": 8, "max_model_len": 256, "kv_gib": 0.125, "dtype": "float32", "enforce_eager": True}
    return VllmEngine(folder, **{**given, **changed})


def plain(generated: Iterable[Generated]) -> list[dict[str, Any]]:
    return [{"number": one.number, "tokens": one.tokens, "log_probs": one.log_probs, "finished": one.finished} for one in generated]


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def message(call: Any) -> str | None:
    try:
        call()
    except (ValueError, RuntimeError, AssertionError, KeyError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def reference(model: Any, outputs: Sequence[dict[str, Any]], temperature: float) -> list[list[float]]:
    """Return what transformers says the log-probs of the outputs' tokens are."""
    import torch

    found = []
    for one in outputs:
        prompt = REQUESTS[one["number"]].prompt
        logits = model(torch.tensor([[*prompt, *one["tokens"]]])).logits[0].double() / temperature
        chosen = logits.log_softmax(-1)[len(prompt) - 1 : -1].gather(-1, torch.tensor(one["tokens"])[:, None])
        found.append(chosen[:, 0].tolist())
    return found


def trained(folder: Path) -> Any:
    """Return a model whose weights a fresh engine can read in folder/weights; every parameter is random, biases as well."""
    import torch
    import transformers

    torch.manual_seed(5)
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(folder), dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
    model.requires_grad_(False).save_pretrained(folder / "weights")
    return model


def every_case(folder: Path) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    vllm = engine(folder)
    model = trained(folder)
    weights = dict(model.named_parameters())

    def run(sampling: Sampling = SAMPLING, slots: int = 8, requests: Sequence[Request] = REQUESTS) -> list[dict[str, Any]]:
        return plain(vllm.generate(requests, sampling, slots, never))

    seen["before"] = run()
    vllm.update(weights, 1)
    seen["version"] = vllm.version
    seen["updated"] = run()
    seen["reference"] = reference(model, seen["updated"], 1.0)
    seen["alone"] = run(slots=1, requests=REQUESTS[::-1])
    seen["cool"] = run(Sampling(temperature=0.5, seed=3, iteration=2))
    seen["cool_reference"] = reference(model, seen["cool"], 0.5)
    seen["greedy"] = run(Sampling(temperature=0.0))
    seen["greedy_reference"] = reference(model, seen["greedy"], 1.0)
    seen["next_iteration"] = run(Sampling(temperature=1.0, seed=3, iteration=3))
    seen["ended"] = run(Sampling(temperature=1.0, seed=3, iteration=2, eos=seen["alone"][0]["tokens"][4]))

    asked = iter([False] * 20 + [True])
    seen["interrupted"] = plain(vllm.generate(REQUESTS, SAMPLING, 3, lambda: next(asked)))
    by_number = {one["number"]: one for one in seen["interrupted"]}
    resumed = [
        Request(one.number, one.prompt, one.max_tokens, by_number[one.number]["tokens"], by_number[one.number]["log_probs"])
        for one in REQUESTS
    ]
    seen["resumed"] = run(requests=resumed)
    dropped = vllm.generate(REQUESTS, SAMPLING, 8, never)
    next(dropped)
    dropped.close()
    seen["after_dropped"] = run()

    from rollplan.executor.engines.torch_engine import TorchEngine

    seen["torch"] = plain(TorchEngine(model).generate(REQUESTS, SAMPLING, 8, never))

    seen["sizes"] = {"state": vllm.state_bytes(), "kv": vllm.kv_bytes, "parameters": sum(one.nbytes for one in weights.values())}
    seen["loaded_bytes"] = resident()
    vllm.offload()
    vllm.offload()
    seen["offloaded_bytes"] = resident()
    seen["off"] = message(lambda: run())
    other = {name: one.roll(1, 0) if one.ndim == 2 else one.clone() for name, one in weights.items()}
    vllm.update(other, 2)
    for one in other.values():
        one.zero_()  # whoever sent the weights may use the memory again
    vllm.load()
    seen["version_after_load"] = vllm.version
    seen["other"] = run()
    vllm.update(weights, 3)
    seen["back"] = run()

    missing = {name: one for name, one in weights.items() if "norm" not in name}
    seen["missing"] = message(lambda: vllm.update(missing, 4))
    seen["unknown"] = message(lambda: vllm.update({**weights, "model.layers.0.nonsense.weight": weights["model.norm.weight"]}, 4))
    seen["misshapen"] = message(lambda: vllm.update({**weights, "model.norm.weight": weights["model.norm.weight"][:3]}, 4))
    seen["mixed"] = message(lambda: run())
    vllm.update(weights, 4)
    seen["healed"] = run()
    seen["twice"] = message(lambda: run(requests=[REQUESTS[0], REQUESTS[0]]))
    seen["too_long"] = message(lambda: run(requests=[Request(0, LONG, 200)]))
    seen["no_prompt"] = message(lambda: run(requests=[Request(0, (), 20)]))
    vllm.close()
    return seen


def main() -> None:
    case, folder = sys.argv[1], Path(sys.argv[2])
    if case == "all":
        seen = every_case(folder)
    elif case == "fresh":
        # Nine blocks for eight samples of two: some are evicted and computed again.
        seen = {"fresh": plain(engine(folder / "weights", weights="auto", kv_gib=0.00055).generate(REQUESTS, SAMPLING, 8, never))}
    else:
        seen = {"pair": plain(engine(folder / "weights", weights="auto", tp=2).generate(REQUESTS, SAMPLING, 8, never))}
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main()
