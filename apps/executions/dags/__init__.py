"""Workflows as the ledger knows them: a plan to run, its conditions, its references, its runs."""
