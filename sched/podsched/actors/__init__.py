"""Ray: the connection, evaluator actors that hold shards of the nodes, binder actors.

The actors only translate and forward; they compute with ``podsched.decide.evaluation`` over
``podsched.cache``. The scheduler never depends on Ray: what an actor does not answer, its caller
does itself.

    ReplicaActors      one per replica: joins Ray ahead of time, creates a TermActors for each term
      RayCluster       the connection, joined again when lost
      TermActors       one per term: adopts or creates its actors and keeps them
        Shards         --ShardSync (deltas)--> EvaluatorActor, one per shard
          RayEvaluator, RayDryRun              ask all shards at once
        RayBinder      --NamedActor----------> BinderActor, two of them

An actor outlives the leader that created it, and follows the highest term that adopts it
(``terms``).
"""
