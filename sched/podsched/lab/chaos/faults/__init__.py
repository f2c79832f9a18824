"""The faults: how each is injected and repaired. ``kinds`` lists them by name."""
