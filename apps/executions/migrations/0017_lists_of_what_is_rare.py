"""Lists of executions find what is rare: an error's class, what holds work back, and a part of a name.

The two indexes of executions have entries of what has failed or is held alone, and name no column that changes when
work is dispatched, claimed and completed as it should be: those updates stay HOT.
"""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

from apps.executions.migrations import _partition_index


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("executions", "0016_words_of_the_admin"),
    ]

    operations = [
        _partition_index.build(
            "executions",
            "executions_failed",
            "tenant_id, (error ->> 'type'), id DESC",
            "error IS NOT NULL",
        ),
        _partition_index.build("executions", "executions_held", "tenant_id, hold, id DESC", "hold <> 0"),
        AddIndexConcurrently(
            model_name="taskversion",
            index=models.Index(fields=["tenant", "task_id", "name"], include=["id"], name="task_versions_of_a_name"),
        ),
    ]
