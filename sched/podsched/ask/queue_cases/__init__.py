"""Cases of job queues with quota as JSON, for ``sched simulate --queue-cases``.

``reading`` turns a case's objects into those of ``podsched.queues``; ``running`` decides the case
and compares the result with what is expected.
"""
