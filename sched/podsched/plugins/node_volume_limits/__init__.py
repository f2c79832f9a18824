"""NodeVolumeLimits: as many volumes of a CSI driver on a node as its CSINode allows.

``plugin`` has the extension points, ``attachable_volumes`` counts what a pod attaches.
"""
