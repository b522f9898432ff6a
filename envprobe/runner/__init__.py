"""The only place that starts processes, bounded in number and time."""
