"""Record a cluster's history, and replay it in virtual time.

The queue, the scheduling loop and the plugins are the real ones; only the cluster and the clock are
simulated. Differences from the recorded run, or between two configurations, are counted.
"""
