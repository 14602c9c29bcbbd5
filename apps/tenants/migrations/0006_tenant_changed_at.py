"""When a tenant was changed last, by the database's clock, whoever writes: dispatchers keep limits in memory, and read
what has changed since.
"""

from django.db import migrations, models

CREATE = """
CREATE FUNCTION tenants_note_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.changed_at := clock_timestamp();
    RETURN NEW;
END $$;
CREATE TRIGGER tenants_note_change BEFORE INSERT OR UPDATE ON tenants
FOR EACH ROW EXECUTE FUNCTION tenants_note_change();
"""
DROP = "DROP TRIGGER tenants_note_change ON tenants; DROP FUNCTION tenants_note_change();"


class Migration(migrations.Migration):
    dependencies = [("tenants", "0005_secret_stores_and_channels")]

    operations = [
        migrations.AddField(
            model_name="tenant",
            name="changed_at",
            field=models.DateTimeField(
                auto_now=True,
                help_text="set by a trigger, whoever writes: dispatchers read what has changed since they looked",
            ),
        ),
        migrations.AddIndex(
            model_name="tenant",
            index=models.Index(fields=["changed_at"], name="tenants_by_change"),
        ),
        migrations.RunSQL(CREATE, DROP),
    ]
