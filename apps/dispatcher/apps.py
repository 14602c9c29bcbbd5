from django.apps import AppConfig


class DispatcherConfig(AppConfig):
    name = "apps.dispatcher"
