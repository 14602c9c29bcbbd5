from datetime import timedelta

import django.db.models.deletion
from django.db import migrations, models

from apps.tenants.identity import new_webhook_secret
from apps.tenants.secret_names import WEBHOOK, WEBHOOK_BEFORE
from chronoweb.runtime.encryption import seal, unseal

_MOVED = "migration"


def seal_webhook_secrets(apps, schema_editor):
    """What tenants' webhooks are signed with goes into the store. Needs a key where there are tenants already."""
    secret = apps.get_model("tenants", "Secret")
    for tenant in apps.get_model("tenants", "Tenant").objects.iterator():
        rotated = tenant.webhook_secret_rotated_at
        until = rotated and rotated + timedelta(days=1)
        for name, value, valid_until in (
            (WEBHOOK, tenant.webhook_secret, None),
            (WEBHOOK_BEFORE, tenant.webhook_secret_before, until),
        ):
            if value and (name == WEBHOOK or valid_until):
                secret.objects.create(
                    tenant=tenant,
                    name=name,
                    sealed=seal(value, str(tenant.id), name),
                    valid_until=valid_until,
                    created_by=_MOVED,
                    updated_by=_MOVED,
                )


def open_webhook_secrets(apps, schema_editor):
    """The way back: the new column has given every tenant the same secret; each gets its own again, or a new one."""
    sealed = {row.tenant_id: row for row in apps.get_model("tenants", "Secret").objects.filter(name=WEBHOOK)}
    for tenant in apps.get_model("tenants", "Tenant").objects.only("id").iterator():
        row = sealed.get(tenant.id)
        known = row and unseal(row.sealed, str(row.tenant_id), row.name)
        tenant.webhook_secret = known or new_webhook_secret()
        tenant.save(update_fields=["webhook_secret"])


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0002_webhook_secret"),
    ]

    operations = [
        migrations.CreateModel(
            name="Secret",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=63)),
                ("sealed", models.TextField(editable=False, help_text="encrypted for this tenant and name")),
                (
                    "valid_until",
                    models.DateTimeField(editable=False, help_text="workers do not use it after that", null=True),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("created_by", models.CharField(max_length=200)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("updated_by", models.CharField(max_length=200)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="secrets", to="tenants.tenant"
                    ),
                ),
            ],
            options={"db_table": "tenant_secrets", "ordering": ["tenant", "name"]},
        ),
        migrations.AddConstraint(
            model_name="secret",
            constraint=models.UniqueConstraint(fields=("tenant", "name"), name="tenant_secrets_one_of_a_name"),
        ),
        migrations.RunPython(seal_webhook_secrets, open_webhook_secrets),
        migrations.RemoveField(model_name="tenant", name="webhook_secret"),
        migrations.RemoveField(model_name="tenant", name="webhook_secret_before"),
        migrations.RemoveField(model_name="tenant", name="webhook_secret_rotated_at"),
    ]
