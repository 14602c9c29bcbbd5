"""Who: tenants, their members, their API keys, and the log of what was done."""

from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from apps.tenants.channel_kinds import KINDS
from apps.tenants.identity import new_uuid
from apps.tenants.secret_places import Store


class Tier(models.TextChoices):
    """What a tenant is; SYSTEM tenants are chronoweb's own (canary, bench) and have no quotas."""

    STANDARD = "STANDARD"
    ENTERPRISE = "ENTERPRISE"
    SYSTEM = "SYSTEM"


class Role(models.TextChoices):
    """What a member or an API key may do. Each role includes those below it."""

    OWNER = "owner"
    OPERATOR = "operator"
    VIEWER = "viewer"

    @property
    def rank(self) -> int:
        return {"viewer": 0, "operator": 1, "owner": 2}[self.value]


LIMITS = (
    "api_requests_per_minute",
    "rate_limit_rps",
    "max_concurrent_workers",
    "executions_per_hour",
    "compute_minutes_per_month",
    "log_storage_gb",
)
"""Fields of a tenant; NULL is no limit."""
UNLIMITED: dict[str, Any] = dict.fromkeys(LIMITS)
"""What chronoweb's own tenants are made with."""


class Tenant(models.Model):
    """An isolated customer; owns everything else. Never deleted while it has executions."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    slug = models.SlugField(max_length=63, unique=True, help_text="its name in URLs and logs")
    name = models.CharField(max_length=200, help_text="as people know it")
    tier = models.CharField(
        max_length=16,
        choices=Tier.choices,
        default=Tier.STANDARD,
        help_text="SYSTEM: the platform's own, without quotas, whose owners see the whole scheduler",
    )
    home_region = models.CharField(
        max_length=63, default="default", help_text="where it is served; servers of other regions say so"
    )
    weight = models.PositiveSmallIntegerField(
        default=1, help_text="its share among tenants that have work due: 2 gets twice the turns of 1"
    )
    max_concurrent_workers = models.PositiveIntegerField(
        "executions at once",
        null=True,
        blank=True,
        default=200,
        help_text="executions dispatched at once; empty: no limit",
    )
    rate_limit_rps = models.PositiveIntegerField(
        "dispatches a second", null=True, blank=True, default=1000, help_text="dispatches a second; empty: no limit"
    )
    api_requests_per_minute = models.PositiveIntegerField(
        "API requests a minute",
        null=True,
        blank=True,
        default=1000,
        help_text="requests to the REST API; empty: no limit",
    )
    executions_per_hour = models.PositiveIntegerField(
        "executions an hour",
        null=True,
        blank=True,
        default=10_000,
        help_text="executions dispatched in an hour; empty: no limit",
    )
    compute_minutes_per_month = models.PositiveIntegerField(
        "compute minutes a month",
        null=True,
        blank=True,
        default=50_000,
        help_text="run time of all attempts in a month; empty: no limit",
    )
    log_storage_gb = models.PositiveIntegerField(
        "log storage, GB", null=True, blank=True, default=100, help_text="logs kept, in GB; empty: no limit"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(
        auto_now=True, help_text="set by a trigger, whoever writes: dispatchers read what has changed since they looked"
    )

    class Meta:
        db_table = "tenants"
        ordering = ["slug"]
        indexes = [models.Index(fields=["changed_at"], name="tenants_by_change")]
        constraints = [
            models.CheckConstraint(condition=Q(weight__range=(1, 100)), name="tenants_weight_range"),
            models.CheckConstraint(
                condition=Q(max_concurrent_workers=None) | Q(max_concurrent_workers__gte=1),
                name="tenants_concurrency_positive",
            ),
            models.CheckConstraint(
                condition=Q(rate_limit_rps=None) | Q(rate_limit_rps__gte=1), name="tenants_rate_positive"
            ),
            *(
                models.CheckConstraint(
                    condition=Q(**{name: None}) | Q(**{f"{name}__gte": 1}), name=f"tenants_{name}_positive"
                )
                for name in (
                    "api_requests_per_minute",
                    "executions_per_hour",
                    "compute_minutes_per_month",
                    "log_storage_gb",
                )
            ),
            models.CheckConstraint(condition=Q(tier__in=Tier.values), name="tenants_tier_is_known"),
        ]

    def __str__(self) -> str:
        return self.slug


class Membership(models.Model):
    """A person's role in a tenant."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(
        max_length=16,
        choices=Role.choices,
        default=Role.VIEWER,
        help_text="a viewer reads, an operator also acts, an owner also gives access",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "memberships"
        verbose_name = "member"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "user"], name="memberships_one_role_each"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="memberships_role_is_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.tenant}"


class ApiKey(models.Model):
    """A program's way in. Only a hash of the key is stored; `prefix` lets people tell keys apart."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=100, help_text="what it is for")
    prefix = models.CharField(max_length=16, help_text="the first characters of the key")
    key_hash = models.CharField(max_length=64, unique=True, editable=False, help_text="SHA-256, hexadecimal")
    role = models.CharField(
        max_length=16,
        choices=Role.choices,
        default=Role.OPERATOR,
        help_text="a viewer reads, an operator also acts, an owner also gives access",
    )
    scopes = models.JSONField(
        default=list, blank=True, help_text='the parts of the API that it may use, such as ["tasks"]; empty: all'
    )
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=200, default="", blank=True, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="UTC; empty: never")
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="to five minutes; empty: never"
    )

    class Meta:
        db_table = "api_keys"
        verbose_name = "API key"
        ordering = ["-created_at"]
        constraints = [
            models.CheckConstraint(condition=Q(role__in=Role.values), name="api_keys_role_is_known"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    def clean(self) -> None:
        """For forms; over REST scopes are read against the routes that there are."""
        if not isinstance(self.scopes, list) or not all(isinstance(scope, str) for scope in self.scopes):
            raise ValidationError({"scopes": 'must be a list of words, such as ["tasks", "executions"]; [] for all'})


class SignIn(models.Model):
    """A person's tokens for the API, from obtaining to revoking: one row, however often they are refreshed.

    Only the number of the refresh token in force is kept, never a token. The tenant is the one that they speak for.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    refresh_id = models.CharField(max_length=64, help_text="jti of the refresh token in force")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "sign_ins"
        verbose_name = "sign-in"

    def __str__(self) -> str:
        return f"{self.user} in {self.tenant}"


class Secret(models.Model):
    """A value that handlers may use and nobody may read. Names that begin with ":" are chronoweb's own."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="secrets")
    name = models.CharField(max_length=63)
    store = models.CharField(
        max_length=16,
        choices=Store.choices,
        default=Store.DATABASE,
        db_default=Store.DATABASE,
        help_text="the keeper",
    )
    place = models.JSONField(
        null=True,
        blank=True,
        help_text="where it lies: a variable, or path and key in Vault; empty: the database",
    )
    sealed = models.TextField(
        default="", db_default="", blank=True, editable=False, help_text="encrypted for this tenant and name"
    )
    valid_until = models.DateTimeField(null=True, editable=False, help_text="workers do not use it after that")
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=200)
    updated_at = models.DateTimeField(auto_now=True)
    updated_by = models.CharField(max_length=200)

    class Meta:
        db_table = "tenant_secrets"
        ordering = ["tenant", "name"]
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], name="tenant_secrets_one_of_a_name"),
            models.CheckConstraint(
                condition=Q(store=Store.DATABASE, place=None) & ~Q(sealed="")
                | Q(store__in=(Store.ENVIRONMENT, Store.VAULT), place__isnull=False, sealed=""),
                name="tenant_secrets_lie_in_one_place",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class NotificationChannel(models.Model):
    """Where a tenant wants to be told. `sealed` is what lets anybody write there."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="channels")
    kind = models.CharField(max_length=16, choices=[(kind, kind) for kind in KINDS])
    name = models.CharField(max_length=63)
    config = models.JSONField("settings", default=dict, blank=True, help_text="what may be shown")
    sealed = models.TextField(default="", blank=True, editable=False, help_text="encrypted for this tenant and channel")
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=200)
    updated_at = models.DateTimeField(auto_now=True)
    updated_by = models.CharField(max_length=200)

    class Meta:
        db_table = "notification_channels"
        verbose_name = "channel"
        ordering = ["kind", "name"]
        constraints = [
            models.UniqueConstraint(fields=["tenant", "kind", "name"], name="notification_channels_one_of_a_name"),
        ]

    def __str__(self) -> str:
        return self.uri

    @property
    def uri(self) -> str:
        """How definitions name it."""
        return f"{self.kind}://{self.name}"


class AuditEntry(models.Model):
    """One act of a person or a program: who did what to which object, when."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="audit_entries", null=True)
    at = models.DateTimeField(auto_now_add=True)
    actor = models.CharField(max_length=200)
    action = models.CharField(max_length=63)
    target_type = models.CharField("of what", max_length=63)
    target_id = models.CharField("its id", max_length=63)
    detail = models.JSONField(default=dict)
    via = models.CharField(
        max_length=16, default="", db_default="", help_text="console, api or admin; empty: a daemon, or a command"
    )
    address = models.CharField(max_length=64, default="", db_default="", help_text="whom the request came from")

    class Meta:
        db_table = "audit_log"
        ordering = ["-id"]
        verbose_name = "entry of the audit log"
        verbose_name_plural = "audit log"
        indexes = [
            models.Index(fields=["tenant", "-id"], name="audit_log_of_tenant"),
            models.Index(fields=["tenant", "at"], name="audit_log_by_time"),
            models.Index(fields=["tenant", "actor", "-id"], name="audit_log_by_actor"),
            models.Index(fields=["tenant", "action", "-id"], name="audit_log_by_action"),
            models.Index(fields=["tenant", "target_type", "target_id", "-id"], name="audit_log_by_target"),
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.target_type} {self.target_id}"
