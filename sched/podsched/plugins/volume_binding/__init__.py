"""VolumeBinding: bound volumes must be reachable from the node, unbound claims must get one there.

``plugin`` has the extension points. ``candidates`` compiles what unbound claims ask for,
``known_volumes`` has the volumes they may get, ``matching`` finds what they would get on which
nodes, ``reservation`` is what Reserve assumes and PreBind writes, ``events`` has the hints.
"""
