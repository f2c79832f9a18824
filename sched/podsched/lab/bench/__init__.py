"""Benchmarks: the workload shapes of kube-scheduler's scheduler_perf, on real processes."""
