"""The controllers of kube-controller-manager that a scheduler depends on.

They run in the leader, and every write carries its fence. Controllers are synchronous and get the
time as an argument; only ``manager`` waits, reads clocks and sends writes.
"""
