"""Public traces of Google's, Azure's and Alibaba's clusters, as workloads to be replayed.

Each format has a module with one function, ``read``; amounts that are normalised in a trace are
taken for real ones, whose size the module says.
"""
