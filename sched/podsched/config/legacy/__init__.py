"""Older configurations: beta versions of KubeSchedulerConfiguration, and arguments in Policies."""
