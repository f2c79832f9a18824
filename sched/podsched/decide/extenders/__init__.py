"""Scheduler extenders: web services that take part in filtering, scoring, preemption and binding.

``wire`` is the JSON on the wire, ``http`` how it gets there, ``calls`` one extender and all of them
with kube-scheduler's rules, ``placement`` and ``binding`` the two places in a pod's life.
"""
