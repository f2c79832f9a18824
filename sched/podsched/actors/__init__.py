"""Ray: the connection, evaluator actors that hold shards of the nodes, binder actors.

The actors translate and forward; what they compute is ``podsched.decide.evaluation`` over
``podsched.cache``. Whatever Ray does, the scheduler goes on without it: every caller does locally
what an actor does not answer.

    ReplicaActors      one a replica: joins Ray ahead of time, makes a TermActors for each term
      RayCluster       the connection, joined again when lost
      TermActors       one a term: adopts or creates its actors and keeps them
        Shards         --ShardSync (deltas)--> EvaluatorActor, one a shard
          RayEvaluator, RayDryRun              ask all shards at once
        RayBinder      --NamedActor----------> BinderActor, two of them

An actor outlives the leader that made it and follows the highest term that adopts it (``terms``).
"""
