"""Whether what was set reached every worker, and if not, at which step it was lost."""

__version__ = "0.1.0"
