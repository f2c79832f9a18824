"""Deciding: which node a pod gets, or why none fits.

::

    Decider.decide(trial, runtime, pods)
        |  asks one after another, and takes the first answer
        |-- accelerators/variants      pods that differ in requests or the like: no evaluation
        |-- accelerators/incremental   what is known of equal pods, brought up to date by row
        '-- reference                  from scratch: every plugin asked about every node

An accelerator (``accelerator.Accelerator``) decides as the reference would, only sooner, or leaves
the pods to the next; each can be left out (``Decider``), and a property test holds each to the
reference. What is chosen is assumed in a trial (``cache.trial``), so the caller may take it back.
"""
