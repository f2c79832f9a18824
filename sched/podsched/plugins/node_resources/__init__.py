"""NodeResourcesFit and NodeResourcesBalancedAllocation: requests against what nodes have.

``fit`` and ``balanced_allocation`` have the extension points. ``scoring_strategies`` and
``fit_events`` belong to the former; both read ``resource_amounts``. ``joint_choice`` is both at
once, in the loop that ``loops`` has compiled where numba is installed.
"""
