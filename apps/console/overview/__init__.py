"""A tenant on one page."""
