"""Choose a node for a pod, or find out why none fits.

::

    Decider.decide(trial, runtime, pods)
        |  asks each in turn and takes the first answer
        |-- accelerators/variants      pods that differ in requests or the like: no evaluation
        |-- accelerators/incremental   kept evaluation of equal pods, refreshed by row
        '-- reference                  from scratch: asks every plugin about every node

An accelerator (``accelerator.Accelerator``) makes the same decision as the reference, only faster,
or leaves the pods to the next one. ``accelerated`` lists them, and each can be disabled. A property
test compares each with the reference. Chosen pods are assumed in a trial (``cache.trial``), which
the caller may roll back.
"""
