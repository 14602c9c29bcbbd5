"""Crontabs, read and made into tasks.

reading.py turns text into lines (pure), planning.py lines into tasks' documents (pure), importing.py compares them with
what is there and writes, wording.py tells people. The times themselves are the business of apps/definitions.
"""
