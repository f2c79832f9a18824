"""Settings and configuration files: defaults, validation, and errors with field paths."""
