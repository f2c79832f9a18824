"""The promises of podsched, each a pure function from a history to its violations."""
