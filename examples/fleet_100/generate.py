"""Write `fleet.yaml`: 100 jobs drawn from RollMux (arXiv 2512.11306) Table 6, Mixed, seed 2512.

Each job: one of the nine profiles uniformly, rollout and training seconds uniform in its ranges, SLO uniform in 1 to 2
(the paper's default), a model size for memory, switch and sync (ours: 3B, 7B, 14B or 32B, equally likely), one node of
each kind (the paper does not publish GPU counts).

    python examples/fleet_100/generate.py > examples/fleet_100/fleet.yaml
"""

from random import Random

TABLE_6 = {
    "BL": [(50, 100, 50, 100), (100, 200, 100, 200), (200, 300, 200, 300)],
    "RH": [(100, 200, 25, 50), (200, 400, 50, 100), (400, 600, 100, 200)],
    "TH": [(25, 50, 100, 200), (50, 100, 200, 400), (100, 200, 400, 600)],
}
"""Seconds: rollout from, to, training from, to; small, medium, large."""


def draw(count: int, seed: int) -> list[str]:
    """Return the YAML lines of `count` jobs."""
    random = Random(seed)
    profiles = [(f"{kind}-{size}", ranges) for kind, rows in TABLE_6.items() for size, ranges in zip("SML", rows, strict=True)]
    lines = []
    for number in range(count):
        profile, (rollout_low, rollout_high, train_low, train_high) = random.choice(profiles)
        size = random.choice(["3B", "7B", "14B", "32B"])
        slo = random.uniform(1, 2)
        rollout, train = random.uniform(rollout_low, rollout_high), random.uniform(train_low, train_high)
        name = f"{number:03}-{profile}"
        lines.append(f"  - {{name: {name}, size: {size}, slo: {slo:.2f}, rollout: {rollout:.1f} s, train: {train:.1f} s}}")
    return lines


HEAD = """\
# rollplan plan examples/fleet_100/fleet.yaml
# Shows: a fleet planned within 1 % of the optimum, with proof. Written by generate.py, seed 2512.
name: fleet_100
description: 100 jobs drawn from RollMux (arXiv 2512.11306) Table 6, Mixed, SLO uniform in 1 to 2, groups of at most 5.
pools:
  h20: {role: rollout, gpu: H20, price: 1.85 $/h, memory: 2 TB}
  h800: {role: train, gpu: H800, price: 5.28 $/h, memory: 2 TB}
jobs:
"""

if __name__ == "__main__":
    print(HEAD + "\n".join(draw(100, seed=2512)))
