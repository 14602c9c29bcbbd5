"""`manage.py ctl`: a chronoweb server from the command line, by its URL and an API key. It uses no database."""
