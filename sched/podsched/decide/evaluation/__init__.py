"""Evaluate where a pod can run and how good each node is: pure code over columns.

Three levels, each shared by more pods than the one above::

    pods          web-0 (label pod-name=web-0)   web-1 (pod-name=web-1)   job (other requests)
                            |                       |                        |
    evaluations     feasible rows, totals, for all pods                 the same, begun as a copy
    by key          with equal projections to all plugins               of its neighbour
                      |          |           |                        |         |          |
    columns by    Taints, ()   Images, ()   Fit, 100m   ......    Taints, ()  Images, ()  Fit, 250m
    projection    bits, raw    raw          bits, raw             (the same)  (the same)  bits, raw

A projection is the part of a pod that a plugin reads (``framework.plugin.ProjectingPlugin``).
Columns are refreshed by row, from the cache's journal; an evaluation adds them up.

    selection            one pod, or a batch of one evaluation key --> rows
      sampling           percentageOfNodesToScore
      batch_lookahead    many pods between two evaluations
        lookahead        rows with 1, 2, 3... more pods
    projections          keys of evaluations: equal for pods that plugins cannot tell apart
    class_evaluation     feasibility and scores of pods of one key, kept current
      plugin_inputs      PreFilter, and versions of data that plugins read beyond a row
      feasibility        verdicts, feasible rows
        first_rejections   per row the first plugin that rejects it
        nominated_rows   the filter pass with nominated pods
      class_scores       scores, totals
        totals           weighted sums of the columns, and the best row
      filter_column      one Filter plugin's verdicts on all rows
      score_column       one Score plugin's scores of all rows
      shared_columns     columns by projection, shared by all classes
    sharding, dry_run    requests to shards of the nodes in other processes, and their results
    pre_filtering, filtering, scoring    run the plugins of a profile from scratch
    diagnosis            why a pod fits no node

Results of filters have five types: ``Verdicts`` (one plugin: bits and reasons for many rows),
``FilterOutcome`` (a profile: per row the first plugin that rejects it), ``Status`` (one row),
``PreFilterOutcome`` (all PreFilter plugins, merged) and ``Diagnosis`` (the pod: both outcomes, and
kube-scheduler's message). ``EvaluationResult`` carries verdicts and scores of some rows between
processes.
"""
