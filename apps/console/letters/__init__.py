"""Dead letters: what failed for good, by what went wrong, and what a person does about it."""
