"""A crontab that is pasted: what each line would be, and the import."""
