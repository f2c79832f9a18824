"""The API server: a stateless front end of etcd over gRPC and HTTP, with a watch cache in memory.

    calls, service, requests, status   gRPC: decode, call, encode
    rest                               Kubernetes' REST API over HTTP, on the same verbs
    pipeline                           the steps of every call, of gRPC and REST
    creation, registry, pods           operations: create; get, update, patch, delete; subresources
    admission, patching, binding, ...  pure functions from an object to its next version
    storage, entries, frames           conditional writes of objects; objects as bytes
    watchcache, cache_reflector        the objects in memory, kept in sync with etcd
    listing, watching, scope           lists and watches
    core, server                       wiring; start, serve, drain, stop
    access                             authentication and authorization (RBAC)
    fairness                           shares of clients, as API priority and fairness
    quotas, audit                      ResourceQuotas; the audit log

Several servers can run on one etcd; a server that fails loses only its caches.
"""
