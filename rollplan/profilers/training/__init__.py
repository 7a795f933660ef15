"""Training profiler: passes, optimizer step, moves between device, host memory and disk, memory; one device, torch and transformers."""
