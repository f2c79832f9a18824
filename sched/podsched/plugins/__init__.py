"""The plugins: what kube-scheduler's in-tree plugins decide, computed over rows.

One module per plugin or, where it has parts, one package with a ``plugin`` module. All have one
shape: docstring with the rule and its source, reasons as constants, then the class with its name,
traits, extension points in cycle order, and events last. ``registry`` lists them. ``rows`` and
``volumes`` are what several of them share; ``per_node`` is for users' plugins. Plugins see
``podsched.framework``, ``podsched.api`` and their arguments in ``podsched.config.plugin_args``.
"""
