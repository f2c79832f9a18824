"""VolumeBinding: a node fits if it can use the pod's bound volumes and has volumes for the others.

``plugin`` has the extension points. ``candidates`` compiles the requirements of unbound claims,
``known_volumes`` has the cluster's volumes, and ``matching`` finds volumes for the claims on each
node. ``reservation`` is what Reserve assumes and PreBind writes.
"""
