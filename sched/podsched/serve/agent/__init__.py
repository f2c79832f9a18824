"""Simulates kubelets (hollow nodes) and a volume provisioner, without running containers.

An agent registers nodes, renews their leases, marks the pods bound to them Running, and ends and
removes pods. All state is in the API, so a restarted agent continues where the last one stopped.
"""
