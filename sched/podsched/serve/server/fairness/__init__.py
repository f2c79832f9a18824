"""Who gets how much of the server, as Kubernetes' API priority and fairness.

``levels`` sorts calls into priority levels, ``flows`` decides (pure) which of a level's flows may
go on, ``gate`` makes calls wait or refuses them, and ``turns`` lets long work give way.
"""
