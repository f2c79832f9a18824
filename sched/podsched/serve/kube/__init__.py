"""A Kubernetes cluster as ``client.cluster.Cluster``: what a kube-apiserver says over HTTP."""
