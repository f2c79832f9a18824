"""PodTopologySpread: pods of one kind spread evenly over zones, nodes or other domains.

``plugin`` has the extension points. ``constraints`` finds the constraints that apply to a pod,
``counts`` lays the matching pods out over the domains, ``lookahead`` follows the verdicts while
pods of one class are placed one after another.
"""
