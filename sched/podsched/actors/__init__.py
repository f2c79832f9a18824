"""Ray: the embedded cluster, evaluator actors that hold shards of the nodes, binder actors that
bind.

The actors translate and forward; what they compute is ``podsched.engine``'s evaluation over
``podsched.cache``.
"""
