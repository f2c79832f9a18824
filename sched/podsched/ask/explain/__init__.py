"""Explain why a pod is pending, or why it is on its node, with the plugins of a decision.

Works on
the cluster of a replica or on one made from manifests, and changes neither. ``live_explanation``
adds what only a replica knows, such as the queue.
"""
