"""The controllers of kube-controller-manager that a scheduler depends on.

They run in the leader, and every write carries its fence. Each controller is synchronous and gets
the time as an argument; ``manager`` alone waits, reads clocks and writes.
"""
