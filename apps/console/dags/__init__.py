"""Pages of DAGs: lists, graphs, runs as they go, and what persons do to them."""
