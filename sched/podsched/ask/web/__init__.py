"""The web page: a cluster at a glance, served over HTTP by scheduler replicas and API servers.

The flow of the data, which the process has anyway:

    ``sources`` --changed keys--> ``board`` --deltas, once a second--> ``feed`` --> each browser
    ``Leadership`` (who leads, how busy) --every five seconds--> ``history``

The board exists only while a browser is connected; otherwise only the history of the last hour is
kept. Fields that may contain secrets are not read: no environment and no volumes of pods.
"""
