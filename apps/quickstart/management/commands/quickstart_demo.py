import argparse
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from apps.console import login_links
from apps.quickstart import demo


class Command(BaseCommand):
    help = (
        "Make what is missing of the demo tenant: tasks, administrator, API key, quickstart.json in the data "
        "directory. Prints the path of a login link that works once. `quickstart` runs this by itself."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--url", required=True, help="where the web process answers, e.g. http://127.0.0.1:8000")

    def handle(self, *args: Any, **options: Any) -> None:
        demo.prepare(url=options["url"], data_dir=Path(settings.DATA_DIR))
        self.stdout.write(login_links.mint(demo.administrator()))
