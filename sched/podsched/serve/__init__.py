"""The cluster's API: store, servers, clients, Kubernetes clusters, hollow nodes."""
