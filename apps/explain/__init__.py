"""Why an execution is not running: the words for it, and how they are found. API and console say the same."""
