"""Leader election: one candidate of several leads, and its term fences its writes.

    record, etcd_lock, lease_lock   the stored lock: reading and writing it
    states, lock_view               the state of a candidate in each phase, and its steps
    step, racing, holding, silence  the pure rules: state and event in, state and effects out
    elector, lock_io                perform the effects and report events
    peers                           detects early that a leader is gone

This package does not depend on what a leader does.
"""
