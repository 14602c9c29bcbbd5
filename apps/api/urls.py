"""Everything below /api/."""

from django.urls import path, re_path

from apps.api import circuits, executions, scheduler, schedules, secrets, tasks, webhook_secret, workers
from apps.api.base import UnknownRoute

urlpatterns = [
    path("v1/tasks", tasks.Tasks.as_view()),
    path("v1/tasks/<uuid:task_id>", tasks.OneTask.as_view()),
    path("v1/tasks/<uuid:task_id>/pause", tasks.PauseTask.as_view()),
    path("v1/tasks/<uuid:task_id>/resume", tasks.ResumeTask.as_view()),
    path("v1/tasks/<uuid:task_id>/trigger", tasks.TriggerTask.as_view()),
    path("v1/tasks/<uuid:task_id>/trigger-batch", tasks.TriggerBatch.as_view()),
    path("v1/schedules/preview", schedules.PreviewSchedule.as_view()),
    path("v1/executions", executions.Executions.as_view()),
    path("v1/executions/<uuid:execution_id>", executions.OneExecution.as_view()),
    path("v1/executions/<uuid:execution_id>/retry", executions.RetryExecution.as_view()),
    path("v1/executions/<uuid:execution_id>/cancel", executions.CancelExecution.as_view()),
    path("v1/circuits", circuits.Circuits.as_view()),
    path("v1/circuits/<int:circuit_id>/reset", circuits.ResetCircuit.as_view()),
    path("v1/workers", workers.Workers.as_view()),
    path("v1/secrets", secrets.Secrets.as_view()),
    path("v1/secrets/<str:name>", secrets.OneSecret.as_view()),
    path("v1/webhook-secret", webhook_secret.WebhookSecret.as_view()),
    path("v1/webhook-secret/rotate", webhook_secret.RotateWebhookSecret.as_view()),
    path("v1/admin/dlq", executions.DeadLetters.as_view()),
    path("v1/admin/dlq/<uuid:execution_id>", executions.DeadLetter.as_view()),
    path("v1/admin/dlq/<uuid:execution_id>/replay", executions.ReplayDeadLetter.as_view()),
    path("v1/admin/scheduler", scheduler.Scheduler.as_view()),
    path("v1/admin/scheduler/failover", scheduler.Failover.as_view()),
    re_path(r"^.*$", UnknownRoute.as_view()),
]
