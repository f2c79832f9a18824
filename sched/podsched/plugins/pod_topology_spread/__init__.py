"""PodTopologySpread: spreads pods evenly over zones, nodes or other topology domains.

``plugin`` has the extension points. ``constraints`` finds the constraints that apply to a pod,
``counts`` adds up the matching pods per domain, and ``lookahead`` tells when verdicts change while
pods of one class are placed one after another.
"""
