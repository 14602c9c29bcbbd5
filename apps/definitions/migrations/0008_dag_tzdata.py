"""By which time zone rules a DAG is planned; empty of those made before: they are planned anew, once."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("definitions", "0007_notifications")]

    operations = [
        migrations.AddField(
            model_name="dag",
            name="tzdata",
            field=models.CharField(
                blank=True, default="", help_text="the time zone rules it is planned by", max_length=16
            ),
        ),
    ]
