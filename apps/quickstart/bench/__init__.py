"""Speed, measured on real services and the real daemons: figures come from the ledger and from the handler."""
