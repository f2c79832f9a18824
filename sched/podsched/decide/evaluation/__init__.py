"""The parts of the reference: run the plugins of a profile for one pod, from scratch. Pure code.

    pre_filtering, filtering, scoring    run the plugins
      nominated_rows     the filter pass with nominated pods
      sampling           percentageOfNodesToScore
    projections          the part of a pod that plugins read; keys of pods they cannot tell apart
    diagnosis            why a pod fits no node
    dry_run              PostFilter's dry runs on some rows, here or in other processes

Results of filters have five types: ``Verdicts`` (one plugin: bits and reasons for many rows),
``FilterOutcome`` (a profile: per row the first plugin that rejects it), ``Status`` (one row),
``PreFilterOutcome`` (all PreFilter plugins, merged) and ``Diagnosis`` (the pod: both outcomes, and
kube-scheduler's message).
"""
