from django.apps import AppConfig


class QuickstartConfig(AppConfig):
    name = "apps.quickstart"
    verbose_name = "Quickstart"
