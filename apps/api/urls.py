"""Everything below /api/."""

from django.urls import path, re_path

from apps.api import circuits, dag_runs, executions, logs, scheduler, schedules, tasks, webhook_secret, workers
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
    path("v1/dags/<uuid:dag_id>/executions", dag_runs.DagRuns.as_view()),
    path("v1/dags/executions/<uuid:run_id>", dag_runs.OneDagRun.as_view()),
    path("v1/dags/executions/<uuid:run_id>/cancel", dag_runs.CancelDagRun.as_view()),
    path("v1/dags/executions/<uuid:run_id>/pause", dag_runs.PauseDagRun.as_view()),
    path("v1/dags/executions/<uuid:run_id>/resume", dag_runs.ResumeDagRun.as_view()),
    path("v1/dags/executions/<uuid:run_id>/rerun", dag_runs.RerunDagRun.as_view()),
    path("v1/dags/executions/<uuid:run_id>/nodes/<str:node_id>", dag_runs.DagRunNode.as_view()),
    path("v1/dags/executions/<uuid:run_id>/nodes/<str:node_id>/clear", dag_runs.ClearNode.as_view()),
    path("v1/dags/executions/<uuid:run_id>/nodes/<str:node_id>/mark", dag_runs.MarkNode.as_view()),
    path("v1/dags/executions/<uuid:run_id>/nodes/<str:node_id>/skip", dag_runs.SkipNode.as_view()),
    path("v1/dags/executions/<uuid:run_id>/nodes/<str:node_id>/approve", dag_runs.ApproveNode.as_view()),
    path("v1/dags/executions/<uuid:run_id>/nodes/<str:node_id>/reject", dag_runs.RejectNode.as_view()),
    path("v1/executions/<uuid:execution_id>/logs", logs.ExecutionLogs.as_view()),
    path("v1/executions/<uuid:execution_id>/logs/download", logs.DownloadLogs.as_view()),
    path("v1/logs", logs.SearchLogs.as_view()),
    path("v1/circuits", circuits.Circuits.as_view()),
    path("v1/circuits/<int:circuit_id>/reset", circuits.ResetCircuit.as_view()),
    path("v1/workers", workers.Workers.as_view()),
    path("v1/webhook-secret", webhook_secret.WebhookSecret.as_view()),
    path("v1/webhook-secret/rotate", webhook_secret.RotateWebhookSecret.as_view()),
    path("v1/admin/dlq", executions.DeadLetters.as_view()),
    path("v1/admin/dlq/<uuid:execution_id>", executions.DeadLetter.as_view()),
    path("v1/admin/dlq/<uuid:execution_id>/replay", executions.ReplayDeadLetter.as_view()),
    path("v1/admin/scheduler", scheduler.Scheduler.as_view()),
    path("v1/admin/scheduler/failover", scheduler.Failover.as_view()),
    re_path(r"^.*$", UnknownRoute.as_view()),
]
