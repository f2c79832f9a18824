"""The API server's gRPC client, its informers, and the port through which replicas see a cluster."""
