"""Predicates and priorities of kube-scheduler v1.14 to v1.16 whose rule is no longer a plugin's.

A Policy file enables them (``legacy.policy``), and so can a KubeSchedulerConfiguration. They have
the names that they had in a Policy. Where the rule is the same today, today's plugin runs instead;
docs/legacy.md has the table. Priorities scored 0 to 10; here each of these points counts ten, so
that they can stand beside plugins that score 0 to 100 and extenders count as they did.
"""
