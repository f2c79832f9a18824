"""Accelerators: they decide as the reference does, only faster. Each can be disabled."""
