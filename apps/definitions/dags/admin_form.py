"""The form by which the admin makes and edits a DAG: its document as YAML or JSON, judged as everywhere else."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms import ModelForm
from unfold.widgets import UnfoldAdminTextareaWidget

from apps.definitions import told
from apps.definitions.dags import files, making
from apps.definitions.dags.versions import document_of
from apps.definitions.models import Dag
from apps.tenants.models import Role, Tenant
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import ChronowebError, InvalidInputs


class DagForm(ModelForm):
    """document: what a file of `manage.py dag apply` would say. actor is set by whoever makes the form's class."""

    document = forms.CharField(
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 40, "spellcheck": "false", "style": "font-family: monospace"}),
        help_text="YAML or JSON, as dag export writes it; saving makes a new version",
        strip=False,
    )
    seen = forms.IntegerField(widget=forms.HiddenInput, required=False)
    actor = ""

    class Meta:
        model = Dag
        fields = ("tenant",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.version_id is not None:
            if "tenant" not in self.fields:
                return  # who may only look is shown the document without what is confidential
            self.fields["document"].initial = files.write(document_of(self.instance))
            self.fields["seen"].initial = self.instance.version
            self.fields["tenant"].disabled = True

    def clean(self) -> dict[str, Any]:
        """Saves, so that whatever the services refuse is told in the form; the admin's request is one transaction."""
        cleaned = super().clean() or {}
        tenant, text = cleaned.get("tenant"), cleaned.get("document")
        if tenant is not None and text is not None and not self.errors:
            try:
                self.saved = self._save(tenant, files.read(text, name="the document"), cleaned.get("seen"))
            except InvalidInputs as error:
                raise ValidationError({"document": told.lines(error, source="document")}) from None
            except ChronowebError as error:
                raise ValidationError({"document": [str(error)]}) from None
        return cleaned

    def _save(self, tenant: Tenant, data: Any, seen: int | None) -> Dag:
        principal = Principal(tenant_id=tenant.id, tenant_slug=tenant.slug, role=Role.OWNER, actor=self.actor)
        if self.instance.version_id is None:
            return making.create_dag(principal=principal, data=data)
        given: Any = dict(data) if isinstance(data, Mapping) else data
        return making.update_dag(
            principal=principal, dag_id=self.instance.id, data=given, partial=False, expected_version=seen
        )
