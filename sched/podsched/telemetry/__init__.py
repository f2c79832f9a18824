"""What can be seen of a process: metrics, traces, logs, health. Names are declared here, once."""
