"""Kubernetes' REST API over HTTP: the second face of the API server, on the same verbs.

    listener, app, messages            HTTP/1.1: connections, requests, answers
    routes, resources                  from a path to a resource and a verb
    media, failures, options           Accept, Status, what stands in the query
    reading, watches, writing          the verbs, by the parts that gRPC's services call, too
    bodies, patches, managers          from what a client sends to an object
    views, tables                      from an object to what a client gets
    discovery, openapi                 what is served

Nothing here stores, validates or permits: an object that is created here is the one that gRPC's
clients see, with the same resourceVersion.
"""
