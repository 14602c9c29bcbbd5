"""Backfills: the page of those of one task or DAG, its form, and what may be done to them."""
