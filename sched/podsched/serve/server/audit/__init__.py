"""The audit log: a line for each call, as in Kubernetes.

``policy`` (pure) selects calls and their level, ``events`` converts a call to an event, and ``log``
writes events in its own thread.
"""
