"""The plugins: what kube-scheduler's in-tree plugins decide, computed over rows.

One module per plugin or, where it has parts, one package with a ``plugin`` module; all of one
shape: name, reasons, extension points in cycle order, events last. ``registry`` lists them.
``rows`` and ``volumes`` are what several of them share; ``per_node`` is for users' plugins. They see
``podsched.framework``, ``podsched.api`` and their arguments in ``podsched.config.plugin_args``.
"""
