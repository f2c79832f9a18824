"""The scheduler's picture of the cluster. Synchronous, without I/O, clock or chance.

Which module is which, from the outside in::

    cache            takes the informer's events and the scheduler's assumptions; a pod's states
      changes        what an event led to: cluster events for the queue, changes of waiting pods
      nominator      which pods are nominated to which node
      pod_class      interns pods by all that can influence a decision
    objects          what plugins read (``ClusterView``): nodes, pods and the objects of other kinds
      assumed_objects  objects as plugins assume them to be, until the informer has others
    columns          the nodes as NumPy columns, a row for each node
      node_table     the columns that come from Node objects, with images and zones
      usage_columns  the names of the columns that sum up what pods use
      class_usage    what one pod of a class adds to a row, and on which rows such pods are
      counters       pods counted by any question, from the moment somebody asks it
      host_ports     host ports in use
      ordering       orders that are as they were once a trial is rolled back
      journal        which rows changed, so that readers look at these alone
      column         one growable column, and the arithmetic of Go's int64
    trial            changes that are kept or undone as one
      versions       numbers that change when something does, and come back when it is undone
    fork             some rows copied, to try changes on
    deltas           what keeps copies of columns in other processes current;
                     ``delta_encoder`` writes it, ``delta_decoder`` reads it
    invariants       everything computed again from nodes and pods, and compared
    debugger         the cache compared with the informer's store, and dumped

Layout: a row is a node, every column has a cell for it. Here n1 was removed, so its row is free
and the next node gets it; two pods of class C (100m CPU, label app=web) are on n0, one is on n2::

    row                     0      1      2      3   ... size-1
    names                  "n0"   ""     "n2"   ""          node_table: changes with Node objects
    alive                   1      0      1      0
    allocatable["cpu"]     4000    0     8000    0          milli-units
    label("zone")           0     -1      1     -1          ids of values, ABSENT
    taint_set               0      0      3      0          ids of sets of taints

    usage: "#pods"          2      0      1      0          columns: changes with pods
    usage: "cpu"           200     0     100     0
    counter(app=web)        2      0      1      0          counters, one for each question
    pods                  {a,b}   {}     {c}    {}          PodInfo by uid

    ClassUsage of C:   amounts   [("#pods", 1), ("cpu", 100)]      what a pod adds
                       counters  [(app=web, 1)]
                       rows      {0: 2, 2: 1}                      where such pods are
    journal:           ... 0, 0, 2                                 rows in the order of changes

Adding a pod is then: find its ClassUsage by its class (one look-up), add ``amounts`` and
``counters`` to the row, append the row to the journal. Nothing is computed from the pod itself.
"""
