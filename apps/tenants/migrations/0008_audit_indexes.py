"""Each filter of the audit log has its index; they are made while the log goes on being written."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("tenants", "0007_audit_whence_and_key_use")]

    operations = [
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(fields=["tenant", "at"], name="audit_log_by_time"),
        ),
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(fields=["tenant", "actor", "-id"], name="audit_log_by_actor"),
        ),
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(fields=["tenant", "action", "-id"], name="audit_log_by_action"),
        ),
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(fields=["tenant", "target_type", "target_id", "-id"], name="audit_log_by_target"),
        ),
    ]
