"""Defining DAGs: their document, its checks, its versions, its schedule."""
