from django.apps import AppConfig


class TenantsConfig(AppConfig):
    name = "apps.tenants"

    def ready(self) -> None:
        from apps.tenants import checks  # noqa: F401 - registers itself
