"""Tasks require labels of their worker; container tasks require "container" by themselves."""

import django.contrib.postgres.fields
from django.db import migrations, models


def route_containers(apps, schema_editor):
    tasks = apps.get_model("definitions", "Task").objects.filter(handler__type="container")
    if tasks.exists():
        route, _ = apps.get_model("executions", "Route").objects.get_or_create(labels=["container"])
        tasks.update(route_id=route.id)


class Migration(migrations.Migration):
    dependencies = [
        ("definitions", "0004_task_concurrency_and_tzdata"),
        ("executions", "0005_routes"),
    ]

    operations = [
        migrations.AddField(
            model_name="task",
            name="requires",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.TextField(),
                blank=True,
                default=list,
                help_text="labels that a worker must carry to run it",
                size=None,
            ),
        ),
        migrations.AddField(
            model_name="task",
            name="route_id",
            field=models.IntegerField(
                db_default=0, default=0, help_text="the ledger's number of those labels; 0: none"
            ),
        ),
        migrations.RunPython(route_containers, migrations.RunPython.noop),
    ]
