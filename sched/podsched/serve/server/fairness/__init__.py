"""Divides the server among its clients, as Kubernetes' API priority and fairness.

``levels`` assigns calls to priority levels, ``flows`` (pure) selects the next of a level's flows,
``gate`` queues or refuses calls, ``flow_metrics`` has its metrics, and ``turns`` lets long work
yield to other calls. ``intake`` limits the memory for a client's messages.
"""
