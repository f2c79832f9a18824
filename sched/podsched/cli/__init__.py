"""The ``sched`` command: arguments in, tables and exit codes out."""
