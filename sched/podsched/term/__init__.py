"""The work of a leader during its term: election, cycles, writes, controllers."""
