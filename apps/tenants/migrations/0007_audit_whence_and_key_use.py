"""Where an act came from, and when a key was used last. Neither rewrites its table."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0006_tenant_changed_at")]

    operations = [
        migrations.AddField(
            model_name="auditentry",
            name="via",
            field=models.CharField(
                db_default="",
                default="",
                help_text="console, api or admin; empty: a daemon, or a command",
                max_length=16,
            ),
        ),
        migrations.AddField(
            model_name="auditentry",
            name="address",
            field=models.CharField(db_default="", default="", help_text="whom the request came from", max_length=64),
        ),
        migrations.AddField(
            model_name="apikey",
            name="last_used_at",
            field=models.DateTimeField(
                blank=True, editable=False, help_text="to five minutes; empty: never", null=True
            ),
        ),
    ]
