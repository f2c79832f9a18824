"""podsched: a highly available pod scheduler with the semantics of kube-scheduler."""

__version__ = "0.1.0"
