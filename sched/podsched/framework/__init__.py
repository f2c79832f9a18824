"""The contract between the scheduler and its plugins: extension points, Status, CycleState, events.

Plugins see this package and nothing else of the scheduler. The runtime that calls them is
``podsched.decide.runtime``; the implementations are ``podsched.plugins``.
"""
