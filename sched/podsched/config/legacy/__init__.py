"""Shapes of older configurations: betas of KubeSchedulerConfiguration, arguments of Policies."""
