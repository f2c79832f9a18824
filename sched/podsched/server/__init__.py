"""The API server: a stateless gRPC front of etcd, with a watch cache in memory.

``registry`` decides what a request does, ``watchcache`` holds what is read and watched, ``service``
speaks gRPC. Several servers run side by side on one etcd; nothing but caches would be lost with
one of them.
"""
