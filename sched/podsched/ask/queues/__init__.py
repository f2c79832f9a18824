"""Questions about queues: how much quota is used by whom, and why a unit waits in its queue."""
