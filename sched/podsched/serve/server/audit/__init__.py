"""Writes the audit log: one line for each call, in Kubernetes' format.

``policy`` (pure) selects calls and their level, ``events`` converts a call to an event, and ``log``
writes events in its own thread.
"""
