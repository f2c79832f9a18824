"""Leader election: who leads, since which term, and the proof that its writes carry.

    record, lock            what is stored, and how it is read and written
    states, lock_view       what a candidate knows, phase by phase
    step, racing, holding   the pure rules: state and event in, state and effects out
    elector, lock_io        carry the effects out and report events
    liveness, peers         show early that a leader is gone

Nothing here knows what a leader does with its leadership.
"""
