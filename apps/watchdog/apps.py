from django.apps import AppConfig


class WatchdogConfig(AppConfig):
    name = "apps.watchdog"
