"""The page: a cluster at a glance, served over HTTP by scheduler replicas and API servers.

From what a process knows anyway to the browser:

    ``sources`` --changed keys--> ``board`` --deltas, once a second--> ``feed`` --> each browser
    ``leadership`` (who leads, how busy) --every five seconds--> ``history`` -----^

While nobody looks there is no board, and nothing follows the objects; only the history of the last
hour is kept. Nothing that could be a secret is read: of pods, no environment and no volumes.
"""
