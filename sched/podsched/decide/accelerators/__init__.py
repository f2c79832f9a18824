"""Accelerators: they decide as the reference does, only faster. Each can be disabled.

``incremental`` keeps the results of filters and scores, on three levels, each shared by more pods
than the one above. ``variants`` begins an evaluation as a copy of a similar one::

    pods          web-0 (label pod-name=web-0)   web-1 (pod-name=web-1)   job (other requests)
                            |                       |                        |
    evaluations     feasible rows, totals, for all pods                 the same, begun as a copy
    by key          with equal projections to all plugins               of its neighbour
                      |          |           |                        |         |          |
    columns by    Taints, ()   Images, ()   Fit, 100m   ......    Taints, ()  Images, ()  Fit, 250m
    projection    bits, raw    raw          bits, raw             (the same)  (the same)  bits, raw

A projection is the part of a pod that a plugin reads (``framework.plugin.ProjectingPlugin``).
Columns are refreshed by row, from the cache's journal; an evaluation adds them up. Three more
accelerators are parts of ``incremental``: ``lookahead`` decides many pods of one evaluation at
once, ``shared`` shares columns between evaluations, and ``remote`` evaluates in other processes.

    incremental          decides for pods of one evaluation key
      selection          one pod, or a batch of one key --> rows
        batch_lookahead  lookahead: many pods between two evaluations
          lookahead      rows with 1, 2, 3... more pods
      class_evaluation   feasibility and scores of pods of one key, kept current
        plugin_inputs    PreFilter, and versions of data that plugins read beyond a row
        feasibility      verdicts, feasible rows
          first_rejections    per row the first plugin that rejects it
        class_scores     scores, totals
          totals         weighted sums of the columns, and the best row
          score_details  the scores behind a choice
        filter_column    one Filter plugin's verdicts on all rows
        score_column     one Score plugin's scores of all rows
        shared_columns   shared: columns by projection
      sharding           remote: requests to shards of the nodes in other processes
        evaluation_result    verdicts and scores of some rows, as processes exchange them
    variants, variant_decisions    pods that differ only in what few plugins read
"""
