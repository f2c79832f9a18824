"""The scheduler's view of the cluster. Synchronous, without I/O, clock or randomness.

The modules, from the outside in::

    cache            applies the informer's events
      pod_states     the pods with a node, bound or assumed
      placed_pods    the nodes, and the pods by node, known or unknown
      changes        results of an event: cluster events for the queue, changes of pending pods
      nominator      nominated pods by node
      pod_class      interns pods by everything that can influence a decision
    objects          what plugins read (``ClusterView``): nodes, pods and objects of other kinds
      objects_by_node  objects by the node that they are about, and columns computed from them
      assumed_objects  objects that plugins assume, until the informer has newer ones
    columns          the nodes as NumPy columns, one row per node
      live_columns   what plugins read of them
      node_table     the columns that come from Node objects, with images
      label_columns  the labels of nodes as columns of small integers
      pod_table      the pods of each row, and the columns that come from pods
      usage_columns  the columns that sum up the usage of pods
      class_usage    what one pod of a class adds to a row, and the rows with such pods
      counters       number of pods per row that match a query, from its first use on
      terms          the affinity terms of pods, and how often pods have each
      pod_counter    the counter of one query or term
      host_ports     host ports in use
      zones          the zone of a node, by its labels
      ordering       restores the order of items when a trial is rolled back
      journal        the rows that changed, so that readers read only these
      column         one growable column, and the arithmetic of Go's int64
    trial            changes that are committed or rolled back together
      transaction    the beginning, the end and the nesting of trials
      trial_changes  a class for each kind of change
      open_trial     what other modules use of a trial
      versions       numbers that change with their content, and are restored by a rollback
    fork             copies of some rows, to try changes on
    deltas           updates for copies of columns in other processes;
                     ``delta_encoder`` writes them, ``delta_decoder`` applies them
    invariants       computes everything again from nodes and pods, and compares
    debugger         compares the cache with the informer's store, and dumps it

Layout: a row is a node, and every column has a cell for it. Here n1 was removed, so its row is free
for the next node; two pods of class C (100m CPU, label app=web) are on n0, one is on n2::

    row                     0      1      2      3   ... size-1
    names                  "n0"   ""     "n2"   ""          node_table: changes with Node objects
    alive                   1      0      1      0
    allocatable["cpu"]     4000    0     8000    0          milli-units
    label("zone")           0     -1      1     -1          ids of values, ABSENT
    taint_set               0      0      3      0          ids of sets of taints

    usage: "#pods"          2      0      1      0          pod_table: changes with pods
    usage: "cpu"           200     0     100     0
    counter(app=web)        2      0      1      0          counters, one per query
    pods                  {a,b}   {}     {c}    {}          PodInfo by uid

    ClassUsage of C:   amounts   [("#pods", 1), ("cpu", 100)]      what a pod adds
                       counters  [(app=web, 1)]
                       rows      {0: 2, 2: 1}                      where such pods are
    journal:           ... 0, 0, 2                                 rows in the order of changes

So adding a pod takes these steps: find its ClassUsage by its class (one look-up), add ``amounts``
and ``counters`` to the row, append the row to the journal. Nothing is computed from the pod itself.
"""
