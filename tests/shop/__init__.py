"""A Django project's app that uses chronoweb through Django's Tasks framework."""
