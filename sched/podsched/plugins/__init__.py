"""The plugins: what kube-scheduler's in-tree plugins decide, computed over rows.

One module per plugin, all of one shape: name, reasons, extension points in cycle order, events
last. ``registry`` lists them. They see ``podsched.framework`` and ``podsched.api``, nothing else.
"""
