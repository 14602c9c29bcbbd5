import argparse
from typing import Any

from django.core.management.base import BaseCommand

from apps.executions import failover


class Command(BaseCommand):
    help = (
        "Depose whoever holds a role, so that a standby takes over. Safe at any time: the old holder's writes are "
        "refused from then on, and what it had under way is settled by its successor within a second or two."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("role", choices=failover.ROLES)

    def handle(self, *args: Any, **options: Any) -> None:
        deposed = failover.depose(options["role"], actor="command:failover")
        for lease, epoch in sorted(deposed.items()):
            self.stdout.write(f"{lease}: epoch is {epoch} now")
        if not deposed:
            self.stdout.write(f"nobody has held the role {options['role']} yet")
