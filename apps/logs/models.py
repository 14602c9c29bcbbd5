"""Where the lines of an execution are kept. The lines themselves are in Django's storage `logs`."""

from django.contrib.postgres.search import SearchVectorField
from django.db import models

from apps.tenants.models import Tenant


class LogChunk(models.Model):
    """A stretch of one attempt's lines, a gzip member inside an object of the storage; partitioned as executions are.

    `words` are those of its lines (logs/search.py), as many as fit; `searched_whole` says that all of them did.
    """

    pk = models.CompositePrimaryKey("scheduled_at", "execution_id", "token", "first_seq")
    scheduled_at = models.DateTimeField(help_text="of the execution: names the partition, and the day of retention")
    execution_id = models.UUIDField()
    token = models.BigIntegerField(help_text="which attempt: numbers of attempts repeat after a drain, tokens never")
    attempt = models.IntegerField()
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    first_seq = models.BigIntegerField()
    last_seq = models.BigIntegerField(help_text="less than first_seq where it holds no line but says the end")
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    bytes = models.BigIntegerField(help_text="of the JSON lines")
    storage_name = models.TextField()
    start = models.BigIntegerField(help_text="where in the object its member begins")
    length = models.BigIntegerField(help_text="bytes of the member")
    ended = models.BooleanField(help_text="nothing of its attempt follows")
    words = SearchVectorField()
    searched_whole = models.BooleanField()

    class Meta:
        db_table = "log_chunks"

    def __str__(self) -> str:
        return f"lines {self.first_seq} to {self.last_seq} of {self.execution_id}"
