"""Judgements: one file per check, and the registry of all of them."""
