"""The API server's gRPC client, informers, and the ``Cluster`` port of scheduler replicas."""
