"""Divides the server among its clients, as Kubernetes' API priority and fairness.

``levels`` assigns calls to priority levels, ``flows`` (pure) selects the next of a level's flows,
``gate`` queues or refuses calls, and ``turns`` lets long work yield to other calls.
"""
