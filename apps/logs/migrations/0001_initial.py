import django.contrib.postgres.search
import django.db.models.deletion
from django.db import migrations, models

# Django cannot declare partitions. The primary key is also the order in which lines are read.
CREATE = """
CREATE TABLE log_chunks (
    scheduled_at timestamptz NOT NULL,
    execution_id uuid NOT NULL,
    token bigint NOT NULL,
    attempt integer NOT NULL,
    tenant_id uuid NOT NULL,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    bytes bigint NOT NULL,
    storage_name text NOT NULL,
    start bigint NOT NULL,
    length bigint NOT NULL,
    ended boolean NOT NULL,
    words tsvector NOT NULL,
    searched_whole boolean NOT NULL,
    PRIMARY KEY (scheduled_at, execution_id, token, first_seq)
) PARTITION BY RANGE (scheduled_at);
CREATE INDEX log_chunks_words ON log_chunks USING gin (words);
CREATE INDEX log_chunks_of_tenant ON log_chunks (tenant_id, execution_id DESC);
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("executions", "0003_circuits"),
        ("tenants", "0002_webhook_secret"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(CREATE, "DROP TABLE log_chunks")],
            state_operations=[
                migrations.CreateModel(
                    name="LogChunk",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "scheduled_at",
                                "execution_id",
                                "token",
                                "first_seq",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        (
                            "scheduled_at",
                            models.DateTimeField(
                                help_text="of the execution: names the partition, and the day of retention"
                            ),
                        ),
                        ("execution_id", models.UUIDField()),
                        (
                            "token",
                            models.BigIntegerField(
                                help_text="which attempt: numbers of attempts repeat after a drain, tokens never"
                            ),
                        ),
                        ("attempt", models.IntegerField()),
                        ("first_seq", models.BigIntegerField()),
                        (
                            "last_seq",
                            models.BigIntegerField(
                                help_text="less than first_seq where it holds no line but says the end"
                            ),
                        ),
                        ("first_at", models.DateTimeField()),
                        ("last_at", models.DateTimeField()),
                        ("bytes", models.BigIntegerField(help_text="of the JSON lines")),
                        ("storage_name", models.TextField()),
                        ("start", models.BigIntegerField(help_text="where in the object its member begins")),
                        ("length", models.BigIntegerField(help_text="bytes of the member")),
                        ("ended", models.BooleanField(help_text="nothing of its attempt follows")),
                        ("words", django.contrib.postgres.search.SearchVectorField()),
                        ("searched_whole", models.BooleanField()),
                        (
                            "tenant",
                            models.ForeignKey(
                                db_constraint=False,
                                on_delete=django.db.models.deletion.DO_NOTHING,
                                related_name="+",
                                to="tenants.tenant",
                            ),
                        ),
                    ],
                    options={"db_table": "log_chunks"},
                ),
            ],
        ),
    ]
