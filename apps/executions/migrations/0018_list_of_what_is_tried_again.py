"""A list of executions finds what waits for another attempt.

The index has entries of what has failed and has not ended: no update of work that succeeds writes it, and the columns
of its condition stand in the conditions of other indexes already, so no update is less HOT for it.
"""

from django.db import migrations

from apps.executions.migrations import _partition_index


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("executions", "0017_lists_of_what_is_rare"),
    ]

    operations = [
        _partition_index.build(
            "executions",
            "executions_tried_again",
            "tenant_id, id DESC",
            "error IS NOT NULL AND (wake_at IS NOT NULL OR hold <> 0)",
        ),
    ]
