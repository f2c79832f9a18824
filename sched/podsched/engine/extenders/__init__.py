"""Scheduler extenders: web services that take part in filtering, scoring, preemption and binding.

``wire`` what is said to them, ``http`` how it gets there, ``calls`` one extender and all of them
with kube-scheduler's rules, ``deciding`` and ``binding`` the two places in a pod's life.
"""
