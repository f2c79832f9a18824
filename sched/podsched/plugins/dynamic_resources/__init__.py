"""DynamicResources: devices for the ResourceClaims of a pod (dynamic resource allocation, DRA).

``model`` has the objects of resource.k8s.io/v1, and ``documents`` reads them.

``allocator`` finds devices for a pod's claims on one node: ``pools`` gathers the devices of the
node, ``requests`` checks the claims, ``search`` chooses devices, and ``results`` makes the
allocations. ``candidates``, ``taken``, ``capacity`` and ``constraints`` are the parts of a search;
``equivalence`` and ``supply`` shorten it.
``selectors`` compiles CEL selectors and keeps their results. ``cases`` runs recorded cases.

``plugin`` has the extension points, and ``events`` those that can help a rejected pod.
``pod_needs`` reads what a pod needs, ``device_filter`` rejects nodes, and ``claim_binding``
allocates on the chosen node: ``reservation`` assumes allocations and writes them. ``pod_claims``
finds the claims, ``devices`` reads the cluster's devices, ``in_use`` has the allocated ones,
``free_devices`` counts the free ones for usual claims, and ``node_search`` calls the allocator for
others. The modules ``extended_*`` do the same for extended resources of DeviceClasses.
``provided_devices`` counts devices for the scores of other plugins, and ``changed_pods`` finds the
devices that are free after preemption. ``lacking`` explains which devices nodes lack.
"""
