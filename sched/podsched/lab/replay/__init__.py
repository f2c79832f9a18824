"""A cluster's history, recorded, and run again in virtual time.

The queue, the scheduling loop and the plugins are the real ones; only the cluster and the clock are
simulated. What differs from the recorded run, or from a run with another configuration, is counted.
"""
