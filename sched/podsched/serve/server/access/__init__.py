"""Authentication and authorization of callers.

``authentication`` derives an ``Identity`` from a call's certificate or token; ``identity`` defines
it and gives all parts of the server access to the current caller's.
"""
