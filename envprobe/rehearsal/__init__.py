"""Rehearsing a start: the declared interpreter and environment, with real children, no model."""
