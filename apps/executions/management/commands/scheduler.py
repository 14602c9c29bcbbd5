import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.executions import freezing, roles
from apps.tenants.models import Tenant
from chronoweb.runtime.errors import Conflict, InvalidInput
from chronoweb.runtime.terminal import visible

ACTOR = "command:scheduler"


class Command(BaseCommand):
    help = (
        "Freeze the scheduler, or one tenant: nothing more is dispatched until it is thawed. What runs goes on, what "
        "waits is kept. `status` says what is frozen, by whom and why, and who leads."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("act", choices=("freeze", "thaw", "status"))
        parser.add_argument("--reason", help="why it is frozen; freeze needs it")
        parser.add_argument("--tenant", metavar="SLUG", help="of this tenant alone")

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = self._tenant(options["tenant"])
        what = "the scheduler" if tenant is None else f"tenant {tenant.slug}"
        try:
            if options["act"] == "freeze":
                freezing.freeze(tenant=tenant, reason=options["reason"], actor=ACTOR)
            elif options["act"] == "thaw":
                freezing.thaw(tenant=tenant, actor=ACTOR)
        except InvalidInput:
            raise CommandError("freeze needs a reason: --reason TEXT") from None
        except Conflict as error:
            raise CommandError(str(error)) from None
        frozen = freezing.standing(tenant)
        if frozen is None:
            self.stdout.write(f"{what} is not frozen")
        else:
            since = f"{frozen.since:%Y-%m-%d %H:%M:%S} UTC"
            self.stdout.write(visible(f"{what} is frozen since {since} by {frozen.by}: {frozen.reason}"))
        if options["act"] == "status" and tenant is None:
            for lease in roles.leases():
                self.stdout.write(f"{lease.role}: epoch {lease.epoch}, until {lease.expires_at:%H:%M:%S} UTC")

    def _tenant(self, slug: str | None) -> Tenant | None:
        if slug is None:
            return None
        found = Tenant.objects.filter(slug=slug).first()
        if found is None:
            raise CommandError(f"no tenant is called {slug!r}")
        return found
