"""Which start-up hooks an interpreter runs: asked of that interpreter, in a child of its own."""
