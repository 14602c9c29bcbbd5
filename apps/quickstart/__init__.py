"""One command to a running chronoweb: embedded services, the supervisor of its processes, demo data."""
