"""What podsched promises, each as a pure function from a history to the violations in it."""
