"""DynamicResources: devices for the ResourceClaims of a pod (dynamic resource allocation, DRA).

``model`` has the objects of resource.k8s.io/v1 and ``documents`` reads them. ``allocator`` finds
the devices of a pod's claims on a node: ``pools`` gathers the devices, ``requests`` checks the
claims, ``search`` chooses, ``results`` writes the allocations down. ``cases`` runs recorded cases.
``plugin`` schedules pods with claims: ``pod_claims`` finds the claims, ``devices`` reads what
devices there are, ``node_search`` finds nodes for claims, ``reservation`` assumes and writes.
"""
