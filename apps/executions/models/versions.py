"""What was promised: snapshots of tasks and DAGs, which executions and runs name."""

from django.db import models

from apps.tenants.models import Tenant


class TaskVersion(models.Model):
    """An immutable snapshot of a task: an execution names one, so what runs is what was promised.

    It is part of the ledger so that workers need nothing else to run an execution.
    """

    task_id = models.UUIDField()
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+")
    number = models.IntegerField(help_text="1 for the first version of the task")
    name = models.CharField(max_length=200)
    definition = models.JSONField(help_text="the task as the API shows it")
    circuit_key = models.TextField(null=True, help_text="which circuit its executions share; NULL: none")
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=200)

    class Meta:
        db_table = "task_versions"
        verbose_name = "version of a task"
        verbose_name_plural = "versions of tasks"
        constraints = [models.UniqueConstraint(fields=["task_id", "number"], name="task_versions_numbered")]
        indexes = [models.Index(fields=["tenant", "task_id", "name"], include=["id"], name="task_versions_of_a_name")]

    def __str__(self) -> str:
        return f"{self.name} v{self.number}"


class DagVersion(models.Model):
    """An immutable snapshot of a DAG: a run names one, so people see what it was made from."""

    dag_id = models.UUIDField()
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+")
    number = models.IntegerField(help_text="1 for the first version of the DAG")
    name = models.CharField(max_length=200)
    definition = models.JSONField(help_text="the DAG as the API shows it")
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=200)

    class Meta:
        db_table = "dag_versions"
        verbose_name = "version of a DAG"
        verbose_name_plural = "versions of DAGs"
        constraints = [models.UniqueConstraint(fields=["dag_id", "number"], name="dag_versions_numbered")]

    def __str__(self) -> str:
        return f"{self.name} v{self.number}"
