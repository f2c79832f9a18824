"""NodeResourcesFit and NodeResourcesBalancedAllocation: compare requests with nodes' resources.

``fit`` and ``balanced_allocation`` have the extension points. ``compared_requests``,
``scoring_strategies`` and ``fit_events`` are parts of NodeResourcesFit. Both plugins read
``resource_amounts`` and ``node_amounts``. ``joint_choice`` computes both plugins in one loop, which
``loops`` compiles if numba is installed.
"""
