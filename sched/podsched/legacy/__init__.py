"""Predicates and priorities of kube-scheduler v1.14 to v1.16 that no plugin of today implements.

A Policy file enables them (``legacy.policy``), and so can a KubeSchedulerConfiguration. They have
the names that they had in a Policy. If the rule is the same today, today's plugin runs instead;
docs/legacy.md has the table. Priorities scored 0 to 10 points; here a point is a score of ten, so
that priorities can be combined with plugins, which score 0 to 100, and extenders count as before.
"""
