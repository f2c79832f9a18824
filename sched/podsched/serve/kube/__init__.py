"""Implements ``serve.client.cluster.Cluster`` on a Kubernetes cluster, over HTTP."""
