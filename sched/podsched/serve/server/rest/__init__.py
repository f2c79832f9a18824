"""Kubernetes' REST API over HTTP, a second interface to the same verbs as gRPC.

    listener, app, messages            HTTP/1.1: connections, requests, answers
    routes, resources                  from a path to a resource and a verb
    media, failures, options           Accept header, Status, query parameters
    reading, watches, writing          the verbs, on the same parts as gRPC's services
    bodies, patches, managers          from a request body to an object
    views, tables                      from an object to a response body
    discovery, openapi                 the resources served

Nothing here stores, validates or authorizes: gRPC clients see objects created here, with the same
resourceVersion.
"""
