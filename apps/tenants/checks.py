"""System checks of what tenants may read of the environment."""

from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage

from apps.tenants.secret_places import ENVIRONMENT_SETTING, pair_problems
from chronoweb.runtime.checks import ALWAYS


@checks.register(ALWAYS)
def check_secret_environment(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    hint = "Write tenant=PREFIX_, several with commas: acme=ACME_SECRET_,beta=BETA_SECRET_"
    return [
        checks.Error(f"{ENVIRONMENT_SETTING}: {problem}.", hint=hint, id="chronoweb.E010")
        for problem in pair_problems(settings.CHRONOWEB.secret_environment)
    ]
