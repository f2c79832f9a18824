"""Hollow nodes: what kubelets and a volume provisioner would do, without running anything.

Registers nodes, keeps their leases fresh, marks pods bound to them Running, ends and removes
them. All state is in the API: an agent that starts again goes on where the last one stopped.
"""
