from django.apps import AppConfig


class PreloaderConfig(AppConfig):
    name = "apps.preloader"
