"""What a measured engine will take for a batch that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rollplan.models.decode import Admission, Generation, Requests, simulate
from rollplan.models.profile.decode import DecodeCurve


def predict_batch(curve: DecodeCurve, prompt_tokens: Sequence[int], output_tokens: Sequence[int]) -> Generation:
    """Return the predicted generation of requests (n) in one instance, first come first served; `seconds` is its length.

    Slots, KV capacity and prefill are those that the profile measured; without a measured prefill it counts as free.
    Raise `InputError` where the batch or the mean context of its sequences leaves the measured range.
    """
    admission = Admission(curve.max_num_seqs, curve.kv_tokens, "preempt")
    prefill_s = curve.prefill.s_per_token.median if curve.prefill else 0.0
    requests = Requests(np.asarray(prompt_tokens), np.asarray(output_tokens))
    return simulate([requests], admission, curve.within(), prefill_s)
