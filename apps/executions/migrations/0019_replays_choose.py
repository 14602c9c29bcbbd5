from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("executions", "0018_list_of_what_is_tried_again"),
    ]

    operations = [
        migrations.AddField(
            model_name="replay",
            name="current_version",
            field=models.BooleanField(
                db_default=False, default=False, help_text="under the versions of their tasks that are in force then"
            ),
        ),
        migrations.AddField(
            model_name="replay",
            name="dead_by",
            field=models.DateTimeField(help_text="when they were counted: what died later is not meant", null=True),
        ),
        migrations.AddField(
            model_name="replay",
            name="refused",
            field=models.JSONField(
                db_default={}, default=dict, help_text="of those left out, the first: execution and why"
            ),
        ),
    ]
