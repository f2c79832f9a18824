"""The API server: a stateless front of etcd, for gRPC and HTTP, with a watch cache in memory.

    calls, service, requests, status   gRPC: decode, call, encode
    rest                               Kubernetes' REST API over HTTP, on the same verbs
    pipeline                           what every call passes, whichever face it comes through
    creation, registry, pods           what a request does: new objects, others, pod subresources
    admission, patching, binding, ...  pure: what becomes of an object
    storage, entries, frames           conditional writes of objects; objects as bytes
    watchcache, cache_reflector        what is read and watched, kept at etcd's state
    listing, watching, scope           lists and watches
    core, server                       the parts put together; start, serve, drain, stop

Several servers run side by side on one etcd; with one of them nothing but caches is lost.
"""
