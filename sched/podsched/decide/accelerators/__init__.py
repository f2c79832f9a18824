"""Ways to decide as the reference does, only sooner. Each can be left out."""
