from django.apps import AppConfig


class WorkerConfig(AppConfig):
    name = "apps.worker"

    def ready(self) -> None:
        from apps.executions import handler_signatures
        from apps.worker.handlers import known

        handler_signatures.provide(known.signature_of)
