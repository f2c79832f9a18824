"""InterPodAffinity: places pods near or away from other pods, by the terms of both.

``plugin`` has the extension points. ``terms`` compiles affinity terms into queries that count pods,
``relations`` finds the terms that concern a pod class and the labels that terms select by, and
``hints`` tells which events help.
"""
