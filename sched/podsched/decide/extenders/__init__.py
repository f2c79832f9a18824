"""Scheduler extenders: web services that take part in filtering, scoring, preemption and binding.

    wire      the JSON of requests and answers
    http      sends requests
    calls     calls one extender, or all of them by kube-scheduler's rules
    decider   chooses a node for a pod that concerns extenders

Bindings by extenders are in ``podsched.term.writes.extender_binding``.
"""
