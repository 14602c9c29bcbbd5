from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("definitions", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="task",
            name="timeouts",
            field=models.JSONField(
                blank=True, default=dict, help_text="queue_seconds, total_seconds, heartbeat_seconds; absent: none"
            ),
        ),
    ]
