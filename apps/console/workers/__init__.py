"""Who runs the work."""
