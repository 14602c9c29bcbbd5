"""The page that breaks quickstart on purpose: a socket to the supervisor, a load, and what the ledger says of it."""
