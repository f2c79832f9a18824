"""The part of kube-controller-manager without which a scheduler cannot be observed.

Runs in the leader; every write carries its fence. Each controller is synchronous and gets the time
as an argument; `manager` alone waits, reads clocks and writes.
"""
