"""Why a pod waits, or is where it is: the same plugins as in a decision, asked to be read.

Works on the cluster of a replica or on one made from manifests, and changes neither. What only a
replica knows, such as the queue, is added by ``live``.
"""
