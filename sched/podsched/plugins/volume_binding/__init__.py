"""VolumeBinding: a node fits if it can use the pod's bound volumes and has volumes for the others.

``plugin`` has the extension points. ``candidates`` has the cluster's volumes, and finds those that
suit an unbound claim. ``matching`` finds volumes for the claims on each node. ``reservation`` is
what Reserve assumes and PreBind writes.
"""
