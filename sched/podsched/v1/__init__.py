"""Generated from protos/podsched/v1 by `make proto`; never edited by hand."""
