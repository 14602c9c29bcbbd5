from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("definitions", "0003_task_idempotent"),
    ]

    operations = [
        migrations.AddField(
            model_name="task",
            name="concurrency",
            field=models.JSONField(blank=True, help_text="key, limit, when_full; null: no limit", null=True),
        ),
        migrations.AddField(
            model_name="task",
            name="tzdata",
            field=models.CharField(
                blank=True, default="", help_text="the time zone rules it is planned by", max_length=16
            ),
        ),
    ]
