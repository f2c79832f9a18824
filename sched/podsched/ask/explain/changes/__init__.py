"""The smallest change of each kind with which a pending pod would fit.

A *kind* is one sort of change: lower requests, a toleration, a constraint dropped, pods deleted,
one more node. For each kind the search finds the cheapest change that makes the pod fit. Every
suggested change has been tried by an evaluation of the whole cluster. Each kind has its own measure
of cost, defined in the module that searches for it.

    question     the pod, the cluster, and the results of the filters
    requests     lower requests: nodes that NodeResourcesFit alone rejects
    tolerations  one more toleration
    demands      one demand of the pod dropped: of selectors, affinity, spreading, ports, labels
    devices      fewer devices, or a selector or constraint of a claim dropped
    pods_gone    some pods deleted: many sets at a time on forks, then one by one in trials
    nodes        a node uncordoned, or one more
    search       runs all of them

Guarantee: every suggested change makes the pod fit, and no smaller one of its kind does, unless
the change says that the search was cut short (``smaller_possible``). Both are property tests.
The bounds on the search keep it under a second at 5,000 nodes.
Non-goals: combinations of kinds; extenders; what preemption would do by itself.
"""
