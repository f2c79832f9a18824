"""``sched chaos``: break a whole system of real processes, record its history, and judge it.

plan      what is broken when, from a seed; pure
faults    how each thing is broken and mended
system    the processes, and relays on every link between them
workload  clients that submit, delete, evict and drain all the time
recorder  everything that happened, appended to one file (``records``, ``history``)
checker   judges that file alone: ``promises`` has a function for each promise; pure
report    the same as one HTML page
"""
