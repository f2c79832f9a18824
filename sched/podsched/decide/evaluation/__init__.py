"""Where a pod can run, and how good each node is: pure functions and objects over columns.

Three things are shared, each by more pods than the one before it::

    pods          web-0 (label pod-name=web-0)   web-1 (pod-name=web-1)   job (other requests)
                            |                       |                        |
    evaluations     feasible rows, totals, for all pods                 the same, begun as a copy
    by key          with equal projections to all plugins               of its neighbour
                      |          |           |                        |         |          |
    columns by    Taints, ()   Images, ()   Fit, 100m   ......    Taints, ()  Images, ()  Fit, 250m
    projection    bits, raw    raw          bits, raw             (the same)  (the same)  bits, raw

A projection is what a plugin reads of a pod (``framework.plugin.ProjectingPlugin``). Columns are
brought up to date from the cache's journal, by rows; an evaluation adds them up.

    selection            one pod, or a batch of one evaluation key --> rows
      sampling           percentageOfNodesToScore
      batch_lookahead    many pods between two evaluations
        front            the best rows, and the best of the rest
        lookahead        rows with 1, 2, 3... more pods
    projections          the keys of evaluations: equal for pods that plugins cannot tell apart
    class_evaluation     feasibility and scores of pods of one key, kept current
      plugin_inputs      PreFilter, and what plugins read beyond a row
      feasibility        verdicts, feasible rows
        nominated_rows   the pass with nominated pods
      class_scores       scores, totals
        row_groups       the best row where whole groups of rows share a score
      class_columns      one plugin's answers for all rows
      shared_columns     those of one projection, for all classes
    sharding, dry_run    requests to parts of the nodes in other processes, and their answers
    pre_filtering, filtering, scoring    the plugins of a profile, run from scratch
    diagnosis            why a pod fits no node

What filters answer has five names: a plugin's ``Verdicts`` (bits and reasons, for many rows), the
profile's ``FilterOutcome`` (per row the first plugin that rejects it), one row's ``Status``,
PreFilter's merged ``PreFilterOutcome``, and the pod's ``Diagnosis``, which has both outcomes and
makes kube-scheduler's message of them. ``EvaluationResult`` carries verdicts and scores of a part
of the rows between processes.
"""
