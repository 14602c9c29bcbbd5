"""Who: tokens, the tenant, its members, API keys, secrets, and what was done by whom."""

from typing import Any

from apps.api.openapi.shapes import (
    MOMENT,
    OBJECT,
    POSITIVE,
    TEXT,
    UUID,
    Shape,
    extended,
    given,
    many,
    one_of,
    or_null,
    page,
    record,
    text,
    whole,
)
from apps.api.tokens import LONGEST
from apps.executions.quotas import QUOTA_OF
from apps.tenants.channel_kinds import KINDS
from apps.tenants.channel_kinds import NAME as CHANNEL_NAME
from apps.tenants.channels import MOST as MOST_CHANNELS
from apps.tenants.key_input import NAME_CHARACTERS
from apps.tenants.models import LIMITS, Role, Tier
from apps.tenants.secret_names import NAME as SECRET_NAME
from apps.tenants.secret_places import KEY_CHARACTERS, PATH_CHARACTERS, Store
from apps.tenants.secret_store import MOST as MOST_SECRETS
from apps.tenants.secret_store import VALUE_BYTES
from apps.tenants.tenants import MOST, MOST_WEIGHT, SLUG
from apps.tenants.tenants import NAME_CHARACTERS as TENANT_NAME_CHARACTERS

_ROLE = one_of(Role.values)
_CREDENTIAL = text(LONGEST, 1)
_SECRET = {"type": "string", "pattern": f"^{SECRET_NAME.pattern}$"}
_SECRET_VALUE = text(VALUE_BYTES, 1)
_PLACE: dict[str, Shape] = {
    "variable": {**TEXT, "description": "environment: of the workers; begins with the tenant's prefix"},
    "path": {**text(PATH_CHARACTERS, 1), "description": "vault: below the tenant's folder"},
    "key": {**text(KEY_CHARACTERS, 1), "description": "vault: the field there"},
}
_KEPT: dict[str, Shape] = {
    "store": {**one_of(Store.values), "default": Store.DATABASE.value},
    "value": {**_SECRET_VALUE, "description": "database: the secret itself, never shown again"},
    **_PLACE,
}
_ABOUT_STORES = "A value for the database; a variable for the environment; path and key for Vault."
_CHANNEL_KIND = one_of(KINDS)
_CHANNEL_NAME = {"type": "string", "pattern": f"^{CHANNEL_NAME.pattern}$"}
_CHANNEL_CONFIG = {
    **OBJECT,
    "description": "; ".join(f"{kind}: {', '.join(fields)}" for kind, fields in KINDS.items())
    + ". What is sealed may be left out of an edit: it stays.",
}
_SLUG = {"type": "string", "pattern": f"^{SLUG.pattern}$", "maxLength": 63}
_MANAGED: dict[str, Shape | str] = {
    "slug": _SLUG,
    "name": text(TENANT_NAME_CHARACTERS, 1),
    "tier": one_of(Tier.values),
    "home_region": _SLUG,
    "weight": whole(1, MOST_WEIGHT),
}
_LIMITS: dict[str, Shape | str] = {name: or_null(whole(1, MOST)) for name in LIMITS}
_USERNAME = text(150, 1)
_KEY = record(
    {
        "id": UUID,
        "name": text(NAME_CHARACTERS, 1),
        "prefix": {**TEXT, "description": "the first characters of the key"},
        "role": _ROLE,
        "scopes": {**many(TEXT), "description": "parts of the API that it may use; empty: all"},
        "created_at": MOMENT,
        "created_by": or_null(TEXT),
        "expires_at": or_null(MOMENT),
        "revoked_at": or_null(MOMENT),
        "last_used_at": or_null({**MOMENT, "description": "to five minutes; null: never"}),
    }
)

SCHEMAS: dict[str, Shape] = {
    "Credentials": given(
        {
            "username": _CREDENTIAL,
            "password": {**_CREDENTIAL, "format": "password"},
            "tenant": or_null({**_CREDENTIAL, "description": "its slug; members of one tenant alone may leave it out"}),
        },
        required=["username", "password"],
    ),
    "RefreshInput": given({"refresh": _CREDENTIAL}, required=["refresh"]),
    "RevokeInput": given({"token": _CREDENTIAL}, required=["token"]),
    "Tokens": record(
        {
            "token_type": {"const": "Bearer"},
            "access": TEXT,
            "access_expires_in": {**POSITIVE, "description": "seconds"},
            "refresh": TEXT,
            "refresh_expires_in": {**POSITIVE, "description": "seconds"},
            "tenant": TEXT,
            "role": _ROLE,
        }
    ),
    "Tenant": record(
        {
            "id": UUID,
            "slug": TEXT,
            "name": TEXT,
            "tier": one_of(Tier.values),
            "home_region": TEXT,
            "weight": POSITIVE,
            "created_at": MOMENT,
            "role": {**_ROLE, "description": "of who asks"},
            "limits": record({name: or_null(POSITIVE) for name in LIMITS}, about="null: no limit"),
            "use": record(
                {name: or_null({"type": "number", "minimum": 0}) for name in LIMITS}, about="null: not counted"
            ),
            "used_up": many(
                record(
                    {
                        "quota": one_of(QUOTA_OF.values()),
                        "window_start": or_null(MOMENT),
                        "window_end": or_null(MOMENT),
                        "told_at": or_null({**MOMENT, "description": "when its owners were told, in the audit log"}),
                    }
                )
            ),
        }
    ),
    "ManagedTenant": record(
        {
            "id": UUID,
            **_MANAGED,
            "created_at": MOMENT,
            "limits": record({name: or_null(POSITIVE) for name in LIMITS}, about="null: no limit"),
            "use": record({name: {"type": "number", "minimum": 0} for name in QUOTA_OF.values()}),
            "frozen": or_null("Frozen"),
        }
    ),
    "ManagedTenantPage": page("ManagedTenant"),
    "ManagedTenantInput": given({**_MANAGED, **_LIMITS}, required=["slug"]),
    "ManagedTenantPatch": given({**{name: _MANAGED[name] for name in _MANAGED if name != "slug"}, **_LIMITS}),
    "MemberInput": given({"username": _USERNAME, "role": {**_ROLE, "default": "viewer"}}, required=["username"]),
    "MemberPatch": given({"role": _ROLE}, required=["role"]),
    "Member": record({"username": TEXT, "role": _ROLE, "created_at": MOMENT}),
    "MemberPage": page("Member"),
    "ApiKeyInput": given(
        {
            "name": text(NAME_CHARACTERS, 1),
            "role": {**_ROLE, "default": "operator"},
            "expires_at": or_null({**TEXT, "description": "a date-time to come; null: never"}),
            "scopes": or_null(many(TEXT)),
        },
        required=["name"],
    ),
    "ApiKey": _KEY,
    "NewApiKey": extended(_KEY, {"key": {**TEXT, "description": "shown this once"}}),
    "ApiKeyPage": page("ApiKey"),
    "SecretInput": given({"name": _SECRET, **_KEPT}, required=["name"], about=_ABOUT_STORES),
    "SecretValue": given(_KEPT, about=_ABOUT_STORES),
    "Secret": record(
        {
            "name": _SECRET,
            "store": _KEPT["store"],
            **_PLACE,
            "created_at": MOMENT,
            "created_by": TEXT,
            "updated_at": MOMENT,
            "updated_by": TEXT,
        },
        optional=_PLACE,
    ),
    "ChannelInput": given(
        {"kind": _CHANNEL_KIND, "name": _CHANNEL_NAME, "config": _CHANNEL_CONFIG}, required=["kind", "name", "config"]
    ),
    "ChannelConfig": given({"config": _CHANNEL_CONFIG}, required=["config"]),
    "Channel": record(
        {
            "id": UUID,
            "kind": _CHANNEL_KIND,
            "name": _CHANNEL_NAME,
            "uri": {**TEXT, "description": "how definitions name it"},
            "config": {**OBJECT, "description": "what may be shown of it"},
            "secret_fields": {**many(TEXT), "description": "what else it has, and nobody is shown"},
            "created_at": MOMENT,
            "created_by": TEXT,
            "updated_at": MOMENT,
            "updated_by": TEXT,
        }
    ),
    "Channels": record({"items": many("Channel", most=MOST_CHANNELS), "next_cursor": {"type": "null"}}),
    "Secrets": record({"items": many("Secret", most=MOST_SECRETS), "next_cursor": {"type": "null"}}),
    "WebhookSecret": record(
        {
            "secret": {**TEXT, "description": "what signs now"},
            "secret_before": or_null({**TEXT, "description": "what signs beside it for a day after a rotation"}),
            "secret_before_valid_until": or_null(MOMENT),
        }
    ),
    "AuditEntry": record(
        {
            "id": POSITIVE,
            "at": MOMENT,
            "actor": TEXT,
            "action": TEXT,
            "target_type": TEXT,
            "target_id": TEXT,
            "detail": OBJECT,
            "via": {**TEXT, "description": "console, api or admin; empty: a daemon, or a command"},
            "address": {**TEXT, "description": "whom the request came from"},
        }
    ),
    "AuditPage": page("AuditEntry"),
}

EXAMPLES: dict[str, dict[str, Any]] = {
    "Credentials": {"member_of_one_tenant": {"username": "ada", "password": "correct horse battery staple"}},
    "MemberInput": {"operator": {"username": "ada", "role": "operator"}},
    "MemberPatch": {"viewer": {"role": "viewer"}},
    "ApiKeyInput": {"for_deployments": {"name": "deploy", "role": "operator", "scopes": ["tasks", "dags"]}},
    "SecretInput": {
        "token": {"name": "REPORTS_TOKEN", "value": "s3cr3t"},
        "in_vault": {"name": "WAREHOUSE_PASSWORD", "store": "vault", "path": "warehouse/loader", "key": "password"},
    },
    "ChannelInput": {
        "slack": {
            "kind": "slack",
            "name": "data-engineering",
            "config": {"url": "https://hooks.slack.com/services/T000/B000/XXXX"},
        },
        "mail": {"kind": "email", "name": "data-team", "config": {"to": ["data@example.com"]}},
    },
    "ChannelConfig": {"mail": {"config": {"to": ["data@example.com", "on-call@example.com"]}}},
    "SecretValue": {"token": {"value": "an0ther"}},
}
