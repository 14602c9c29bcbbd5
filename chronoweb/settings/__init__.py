"""Django settings. Everything that differs between installations comes from the environment (see .env.example)."""

import os
import sys
from datetime import timedelta
from pathlib import Path

import environ

from chronoweb.runtime import addresses
from chronoweb.runtime import config as chronoweb_config
from chronoweb.settings.admin_theme import UNFOLD as UNFOLD

BASE_DIR = Path(__file__).resolve().parent.parent.parent
env = environ.Env()
if (BASE_DIR / ".env").exists():
    env.read_env(str(BASE_DIR / ".env"))

DATA_DIR = Path(env.str("CHRONOWEB_DATA_DIR", default=str(BASE_DIR / "var")))
CHRONOWEB = chronoweb_config.read(os.environ)
SERVICES = addresses.find(os.environ, DATA_DIR)

DEBUG = env.bool("DEBUG", default=False)
SECRET_KEY = env.str("SECRET_KEY", default="")
if not SECRET_KEY and (DATA_DIR / "secret_key").exists():
    SECRET_KEY = (DATA_DIR / "secret_key").read_text().strip()
if not SECRET_KEY:
    # Good for commands that sign nothing; the check chronoweb.E003 refuses to serve with it.
    SECRET_KEY = "unset-" + os.urandom(24).hex()
# What seals the tenants' secrets; see chronoweb/runtime/encryption.py.
SECRET_ENCRYPTION_KEYS = env.list("SECRET_ENCRYPTION_KEYS", default=[])
if not SECRET_ENCRYPTION_KEYS and (DATA_DIR / "secret_encryption_keys").exists():
    SECRET_ENCRYPTION_KEYS = (DATA_DIR / "secret_encryption_keys").read_text().split()
# How workers prove themselves to Vault, if CHRONOWEB_VAULT_ADDRESS names one: by a token, or by an AppRole.
VAULT_TOKEN = env.str("VAULT_TOKEN", default="")
VAULT_ROLE_ID = env.str("VAULT_ROLE_ID", default="")
VAULT_SECRET_ID = env.str("VAULT_SECRET_ID", default="")
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

# Quickstart's own: an address for the demo's tasks that fails in some minutes.
DEMO_TENANT = "demo"
DEMO_ENDPOINTS = env.bool("DEMO_ENDPOINTS", default=False)
# And where its supervisor listens for what the page "Break it" asks for; empty: there is no such page.
QUICKSTART_CONTROL = env.str("QUICKSTART_CONTROL", default="")

INSTALLED_APPS = [
    # It gives runserver its sockets. Every other process would import Twisted for nothing, which is half of its start.
    *(["daphne"] if "runserver" in sys.argv[1:2] else []),
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "channels",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "apps.tenants",
    "apps.executions",
    "apps.logs",
    "apps.definitions",
    "apps.worker",
    "apps.dispatcher",
    "apps.preloader",
    "apps.watchdog",
    "apps.api",
    "apps.console",
    "apps.quickstart",
    "apps.ctl",
]

MIDDLEWARE = [
    "chronoweb.runtime.request_id.RequestId",
    "chronoweb.runtime.trace.TraceContext",
    "apps.tenants.whence.KnowWhence",
    "apps.console.middleware.SecurityHeaders",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "apps.console.whole_forms.WholeForms",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "apps.console.errors.ErrorPages",
]
CSRF_FAILURE_VIEW = "apps.console.errors.forbidden_form"

ROOT_URLCONF = "chronoweb.urls"
ASGI_APPLICATION = "chronoweb.asgi.application"
WSGI_APPLICATION = "chronoweb.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# Without an address the URL below only lets commands that need no database start; chronoweb.E001 says what to set.
DATABASES = {"default": env.db_url_config(SERVICES.database_url or "postgres://localhost/chronoweb")}
DATABASES["default"]["CONN_MAX_AGE"] = env.int("CONN_MAX_AGE_SECONDS", default=0)
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
# Statements that ask for it are prepared (postgres.UnderDjango.read), never others, however often they come.
DATABASES["default"].setdefault("OPTIONS", {}).setdefault("prepare_threshold", 1_000_000)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTHENTICATION_BACKENDS = ["apps.tenants.passwords.CountedPasswords"]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = "console:login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "console:login"

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = False
FORMAT_MODULE_PATH = ["chronoweb.formats"]
USE_TZ = True

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = BASE_DIR / "staticfiles"
WHITENOISE_USE_FINDERS = True

# Where the log shipper keeps lines: a folder, which all processes must see, or a bucket of anything that speaks S3.
LOG_BUCKET = env.str("LOG_BUCKET", default="")
_LOG_FILES = {
    "BACKEND": "apps.logs.objects.DurableFiles",
    "OPTIONS": {"location": env.str("LOG_DIRECTORY", default=str(DATA_DIR / "log-chunks"))},
}
_LOG_OBJECTS = {
    "BACKEND": "storages.backends.s3.S3Storage",
    "OPTIONS": {
        "bucket_name": LOG_BUCKET,
        "location": env.str("LOG_BUCKET_PREFIX", default=""),
        "endpoint_url": env.str("LOG_BUCKET_ENDPOINT", default="") or None,
        "region_name": env.str("LOG_BUCKET_REGION", default="") or None,
        "querystring_auth": True,
        "file_overwrite": True,
    },
}
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    "logs": _LOG_OBJECTS if LOG_BUCKET else _LOG_FILES,
}

SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = env.bool("COOKIES_SECURE", default=False)
CSRF_COOKIE_SECURE = SESSION_COOKIE_SECURE
CSRF_COOKIE_SAMESITE = "Lax"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

# Behind a proxy that speaks TLS and says so itself in X-Forwarded-Proto, http is answered with https; without one, that
# would never end. Probes and metrics are asked from inside.
if env.bool("TLS_PROXY", default=False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = SESSION_COOKIE_SECURE
    SECURE_REDIRECT_EXEMPT = [r"^livez$", r"^readyz$", r"^metrics$"]
SECURE_HSTS_SECONDS = env.int("HSTS_SECONDS", default=31_536_000 if SESSION_COOKIE_SECURE else 0)
SECURE_HSTS_INCLUDE_SUBDOMAINS = env.bool("HSTS_SUBDOMAINS", default=False)
SECURE_HSTS_PRELOAD = env.bool("HSTS_PRELOAD", default=False)
# Whether all hosts below this one speak TLS is not known here; who knows sets the two above.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

# A body may hold 10,000 trigger items; each item's own limit is CHRONOWEB_PAYLOAD_BYTES.
DATA_UPLOAD_MAX_MEMORY_SIZE = env.int("REQUEST_BODY_BYTES", default=8 * 1024 * 1024)
DATA_UPLOAD_MAX_NUMBER_FIELDS = 2000
DATA_UPLOAD_MAX_NUMBER_FILES = 10

REST_FRAMEWORK: dict[str, object] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "UNAUTHENTICATED_USER": None,
    "DEFAULT_SCHEMA_CLASS": "apps.api.openapi.document.Described",
}

# The API's description: docs/openapi.yaml is what `manage.py spectacular --file docs/openapi.yaml` writes.
SPECTACULAR_SETTINGS: dict[str, object] = {
    "TITLE": "chronoweb",
    "VERSION": "1",
    "DESCRIPTION": (
        "Tasks and DAGs on schedules. Bodies are JSON in UTF-8; refusals are problem details (RFC 9457) that name each "
        "wrong value by its JSON pointer. Lists are pages by key: `next_cursor` is the `cursor` of the next one."
    ),
    "OAS_VERSION": "3.1.1",
    "POSTPROCESSING_HOOKS": ["apps.api.openapi.document.put_components"],
}

SIMPLE_JWT: dict[str, object] = {
    "ACCESS_TOKEN_LIFETIME": timedelta(minutes=CHRONOWEB.access_token_minutes),
    "REFRESH_TOKEN_LIFETIME": timedelta(days=CHRONOWEB.refresh_token_days),
    "ALGORITHM": "HS256",
    "ISSUER": "chronoweb",
    "AUDIENCE": "chronoweb-api",
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "chronoweb.runtime.logs.JsonFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": env.str("LOG_LEVEL", default="INFO")},
    "loggers": {"httpx": {"level": "WARNING"}, "httpcore": {"level": "WARNING"}},
}
