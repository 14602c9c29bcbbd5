from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.tenants.secret_store import reseal_all


class Command(BaseCommand):
    help = (
        "Seal every secret anew with the first key of SECRET_ENCRYPTION_KEYS. To change keys: put the new one in front "
        "in every web process and worker, restart them, run this, then take the old one away. Harmless to repeat."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        done, unreadable = reseal_all()
        self.stdout.write(f"{done} secrets are sealed with the first key")
        if unreadable:
            names = ", ".join(unreadable[:20])
            raise CommandError(f"{len(unreadable)} cannot be opened by any key and stay as they are: {names}")
