"""Renderers, one per format: they format and never judge."""
