"""The audit log's page: who did what to what, when, from where."""
