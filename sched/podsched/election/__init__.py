"""Leader election: who leads, since which term, and the proof that its writes carry.

`record` is what is stored, `step` decides, `elector` carries out, `liveness` and `stream` tell
early that a leader is gone. Nothing here knows what a leader does with its leadership.
"""
