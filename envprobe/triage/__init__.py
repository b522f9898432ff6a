"""Facts about a start that failed: what its log, its journal and its manager say."""
