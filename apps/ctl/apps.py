from django.apps import AppConfig


class CtlConfig(AppConfig):
    name = "apps.ctl"
