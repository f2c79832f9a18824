"""PodTopologySpread: spreads pods evenly over zones, nodes or other topology domains.

``plugin`` has the extension points. ``constraints`` finds the constraints that apply to a pod,
``entries`` compiles them once for equal pods, and ``counts`` adds up the matching pods per domain.
``lookahead`` tells when verdicts change while pods of one class are placed one after another, and
``hints`` which events can make a rejected pod fit.
"""
