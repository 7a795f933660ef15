"""Measures an inference engine: decode latency by batch and context, prefill, KV capacity."""
