"""A Kubernetes cluster as ``serve.client.cluster.Cluster``: a kube-apiserver over HTTP."""
