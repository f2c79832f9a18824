"""DefaultPreemption: makes room for a pod by evicting pods of lower priority.

``plugin`` has the extension points, ``node_search`` selects the node, ``dry_run`` the victims on
each node, ``dry_run_cache`` remembers what dry runs found for the next pod of the class.
"""
