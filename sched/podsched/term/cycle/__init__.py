"""The scheduling cycle and the binding cycle of one term of leadership."""
