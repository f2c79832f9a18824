"""Settings, their defaults and validation; errors name the field's path."""
