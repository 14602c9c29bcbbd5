"""A backend of Django's Tasks framework (`django_tasks`, the backport): `@task` functions run on chronoweb's workers.

A project names it in its setting TASKS; docs/django-tasks.md says what it needs beside that.
"""
