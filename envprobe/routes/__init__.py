"""From a snapshot to routes, breaks and causes: pure functions, no input or output."""
