"""Executions: the live list that a question in the address narrows, and the page of one."""
