"""A ledger as an installation has it after a week, written by COPY: for measurements, and for looking at pages."""
