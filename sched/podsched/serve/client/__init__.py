"""The API server's gRPC client, informers, and the port through which replicas see a cluster."""
