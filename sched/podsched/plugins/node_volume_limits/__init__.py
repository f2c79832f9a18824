"""NodeVolumeLimits: limits the volumes of each CSI driver on a node, as its CSINode says.

``plugin`` has the extension points, ``attachable_volumes`` finds the volumes that a pod attaches.
"""
