"""Public traces of Google's, Azure's and Alibaba's clusters, as workloads to be replayed.

Each format has a module with one function, ``read``. Normalised amounts are converted to real ones;
the module says how.
"""
