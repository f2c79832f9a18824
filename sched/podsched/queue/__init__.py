"""The scheduling queue: activeQ, the backoff queues, and the unschedulable pods."""
