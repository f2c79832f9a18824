"""``sched chaos``: inject faults into a system of real processes, and check its history.

plan      what is broken when, from a seed; pure
faults    how each thing is broken and mended
system    the processes, and relays on every link between them
workload  clients that submit, delete, evict and drain all the time
recorder  everything that happened, appended to one file (``records``, ``history``)
checker   judges that file alone: ``promises`` has a function for each promise; pure
report    the same as one HTML page
"""
