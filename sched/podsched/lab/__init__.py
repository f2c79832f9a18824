"""Measuring and breaking: benchmarks, chaos, replay."""
