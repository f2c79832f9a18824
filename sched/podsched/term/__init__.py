"""What a leader does in its term: election, cycles, writes, controllers."""
