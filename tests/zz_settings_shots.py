import pytest, secrets as s
from datetime import timedelta
from tests.test_console_browser import chromium, site, nobody_reads
from tests.test_console_dag_browser import DagStage
from tests.factories import make_principal, make_task
from tests.console_dags import make_member
from tests.console_ledger import now
from apps.tenants import keys, channels, secret_store, members, audit
from apps.tenants.models import *
from apps.executions.models import CircuitBreaker
from apps.executions import usage
from apps.executions.quotas import Use
from apps.executions.states import Status
from apps.definitions import services
from chronoweb.runtime import postgres
from django.db import connection
from django.contrib.auth.models import User
pytestmark = pytest.mark.django_db(transaction=True)
import os
WHICH = os.environ.get("SHOTS", "").split()
def test_shots(chromium, site):
    st = DagStage(chromium, site)
    t = st.tenant; p = make_principal(t)
    for n, r in (("ada.lovelace","owner"),("grace.hopper","operator"),("alan.turing","viewer")):
        u = User.objects.create(username=n, first_name=n.split(".")[0].title(), last_name=n.split(".")[1].title()); Membership.objects.create(tenant=t,user=u,role=r)
    for n, sc in (("deploy pipeline",["tasks","dags"]),("grafana",["executions","dead-letters","workers"]),("old laptop",[])):
        m = keys.make_over_rest(principal=p, name=n, role=Role.OPERATOR, expires_at=now()+timedelta(days=40) if sc else None, scopes=sc)
    keys.principal_of(m.text, now=now()-timedelta(hours=2))
    keys.revoke(principal=p, key_id=m.key.id, now=now())
    for n in ("REPORTS_TOKEN","WAREHOUSE_PASSWORD","SMTP_PASSWORD"):
        secret_store.create(principal=p, name=n, given={"value":"x"})
    Secret.objects.create(tenant=t, name="BANK_CERT", store="vault", place={"path":"payments/api/production","key":"certificate"}, created_by="user:ada.lovelace", updated_by="user:ada.lovelace")
    channels.create(principal=p, kind="email", name="data-team", given={"to":["data@example.com","on-call@example.com"]})
    channels.create(principal=p, kind="pagerduty", name="night", given={"routing_key":"K"*32,"severity":"critical"})
    task = make_task(p, name="reports: month-end close", handler={"type":"webhook","url":"https://example.com/","headers":{"A":"Bearer {{secret:REPORTS_TOKEN}}"}}, notifications={"on_failure":["email://data-team"]})
    services.update_task(principal=p, task_id=task.id, data={"priority":2,"description":"closes the month"}, partial=True)
    audit.record(tenant_id=t.id, actor="user:ada.lovelace", action="membership.change", target_type="member", target_id="grace.hopper", detail={"before":"viewer","role":"operator"})
    audit.record(tenant_id=t.id, actor="user:root", action="tenant.change", target_type="tenant", target_id=str(t.id), detail={"fields":["weight"],"before":{"weight":1},"after":{"weight":3}})
    AuditEntry.objects.update(via="console", address="198.51.100.7")
    audit.record(tenant_id=t.id, actor="chronoweb", action="quota.reached", target_type="tenant", target_id=str(t.id), detail={"quota":"executions_per_hour","limit":100})
    e = st.add(Status.PRELOADED, task="sales-merge"); st.add(Status.RUNNING, task="sales-merge")
    audit.record(tenant_id=t.id, actor="key:cw_8fj2kd92", action="execution.cancel", target_type="execution", target_id=str(e.id))
    CircuitBreaker.objects.create(tenant=t, key="webhook:api.partner.example:443", changed_at=now(), opened_at=now(), quarantine_until=now()+timedelta(minutes=4), last_error="ConnectTimeout: no answer within 5 s")
    CircuitBreaker.objects.create(tenant=t, key="python:demo.invoice", changed_at=now())
    Tenant.objects.filter(id=t.id).update(executions_per_hour=10000, max_concurrent_workers=2, compute_minutes_per_month=50, name="Acme Corporation")
    usage.add(postgres.raw(connection), {(t.id.bytes, int(Use.EXECUTIONS)): 8600, (t.id.bytes,int(Use.COMPUTE)): 60_000_000*51, (t.id.bytes,int(Use.LOGS)): 300_000_000})
    pages = {"audit":"audit/","tenant":"settings/","members":"settings/members","keys":"settings/keys","secrets":"settings/secrets","channels":"settings/channels","limits":"settings/limits"}
    os.makedirs("/tmp/settings-shots", exist_ok=True)
    for name, path in pages.items():
        if WHICH and name not in WHICH: continue
        for w, scheme in ((1440,"light"),(1440,"dark"),(390,"light"),(390,"dark")):
            if scheme == ("dark" if name in ("keys","members","tenant") and w==1440 else "x"): pass
            page = st.visit(path, role=Role.OWNER, live=False, width=w, height=900, scheme=scheme)
            page.screenshot(path=f"/tmp/settings-shots/{name}-{w}-{scheme}.png", full_page=True)
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"): print("SIDEWAYS", name, w)
            page.context.close()
    for name, opener in (("keys","Make a key"),("secrets","Keep a secret"),("channels","Make a channel"),("members","Add a member")):
        if WHICH and name not in WHICH: continue
        for w, scheme in ((1440,"light"),(390,"dark")):
            page = st.visit(pages[name], role=Role.OWNER, live=False, width=w, height=900, scheme=scheme)
            page.get_by_role("button", name=opener).click()
            page.locator("dialog[open] [data-go]").click()
            page.wait_for_timeout(500)
            page.screenshot(path=f"/tmp/settings-shots/dialog-{name}-{w}-{scheme}.png")
            page.context.close()
    print(st.complaints)
