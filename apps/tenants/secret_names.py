"""How secrets are called. Pure."""

import re

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}", re.ASCII)
LEGAL = 'a letter or "_", then letters, digits, "_", "-" and ".", at most 63 characters'

# chronoweb's own lie beside a tenant's, under names that no person can give.
WEBHOOK = ":webhook"
WEBHOOK_BEFORE = ":webhook-before"
