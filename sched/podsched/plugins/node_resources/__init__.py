"""NodeResourcesFit and NodeResourcesBalancedAllocation: compare requests with nodes' resources.

``fit`` and ``balanced_allocation`` have the extension points. ``scoring_strategies``,
``fit_events`` and ``placement_score`` are parts of NodeResourcesFit. Both plugins read
``resource_amounts``, ``node_amounts`` and ``scored_devices``. ``joint_choice`` computes both
plugins in one loop, which ``loops`` compiles if numba is installed.
"""
