"""The plugins: the rules of kube-scheduler's in-tree plugins, computed for many nodes at once.

A plugin is one module or, if it is large, one package with a module ``plugin``. All have the same
order: docstring with the rule and its source, reasons as constants, then the class with its name,
traits, extension points in cycle order, and events last. ``registry`` lists them. Several plugins
share ``rows``, ``pods`` and ``volumes``; ``per_node`` is for users' plugins. Plugins import only
``framework``, ``api``, ``lib``, ``v1``, and their arguments from ``config.plugin_args``.
"""
