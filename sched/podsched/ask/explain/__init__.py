"""Explain why a pod is pending, or why it is on its node, with the plugins of a decision.

The cluster is a replica's or made from manifests; it is not changed. ``live_explanation`` adds data
that only a replica has, such as the pod's place in the queue.
"""
