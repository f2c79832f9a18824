"""Metrics, traces, logs and health checks of a process. All their names are declared here, once."""
