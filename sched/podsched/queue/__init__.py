"""The scheduling queue: activeQ, the backoff queues, and the unschedulable pods."""

from podsched.queue.observer import QueueObserver, SilentObserver
from podsched.queue.scheduling_queue import QueueCorrupted, SchedulingQueue

__all__ = ["QueueCorrupted", "QueueObserver", "SchedulingQueue", "SilentObserver"]
