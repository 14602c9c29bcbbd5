"""Proof by breaking: load and scheduled tasks while everything is killed, stopped and emptied; then an audit."""
