"""InterPodAffinity: pods near or away from other pods, as they or the others ask for it.

``plugin`` has the extension points. ``terms`` compiles affinity terms into queries that count pods,
``relations`` finds the terms that concern a pod class, ``hints`` says which events help.
"""
