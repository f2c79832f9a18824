"""Settings, their defaults and their validation, every mistake named by its field path."""
