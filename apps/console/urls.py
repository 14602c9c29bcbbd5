"""Addresses of the console. A tenant stands in the URL, so that a copied link opens what its sender saw."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from apps.console import views
from apps.console.audit import views as audit
from apps.console.backfills import acts as backfill_acts
from apps.console.backfills import views as backfills
from apps.console.crontab import views as crontab
from apps.console.dags import acts
from apps.console.dags import editing as dag_editing
from apps.console.dags import views as dags
from apps.console.executions import acts as execution_acts
from apps.console.executions import views as executions
from apps.console.letters import acts as letter_acts
from apps.console.letters import views as letters
from apps.console.overview import first_steps
from apps.console.overview import views as overview
from apps.console.scheduler import views as scheduler
from apps.console.settings import acts as settings_acts
from apps.console.settings import views as settings
from apps.console.tasks import acts as task_acts
from apps.console.tasks import saving
from apps.console.tasks import views as tasks
from apps.console.throttle import throttled
from apps.console.workers import views as workers

_login = LoginView.as_view(template_name="console/login.html", redirect_authenticated_user=True)

app_name = "console"
urlpatterns = [
    path("", views.home, name="home"),
    path("console/executions/", views.home),
    path("t/<slug:slug>/", overview.overview, name="overview"),
    path("t/<slug:slug>/state", overview.overview_state, name="overview_state"),
    path("t/<slug:slug>/find", views.found, name="find"),
    path("t/<slug:slug>/first-steps/put-away", first_steps.put_away, name="put_away"),
    path("t/<slug:slug>/executions/", executions.executions, name="executions"),
    path("t/<slug:slug>/executions/<uuid:identity>/", executions.execution, name="execution"),
    path("t/<slug:slug>/executions/<uuid:identity>/logs", executions.logs, name="logs"),
    path("t/<slug:slug>/executions/<uuid:identity>/logs/download", executions.download_logs, name="download_logs"),
    path("t/<slug:slug>/executions/<uuid:identity>/state", executions.execution_state, name="execution_state"),
    path("t/<slug:slug>/executions/<uuid:identity>/act/<slug:act>", execution_acts.one_act, name="execution_act"),
    path("t/<slug:slug>/executions/state", executions.executions_state, name="executions_state"),
    path("t/<slug:slug>/executions/count/<slug:act>", executions.executions_count, name="executions_count"),
    path("t/<slug:slug>/executions/act/<slug:act>", execution_acts.some_act, name="executions_act"),
    path("t/<slug:slug>/workers/", workers.workers, name="workers"),
    path("t/<slug:slug>/workers/state", workers.workers_state, name="workers_state"),
    path("t/<slug:slug>/workers/<int:worker_id>/act/<slug:act>", workers.worker_act, name="worker_act"),
    path("t/<slug:slug>/scheduler/", scheduler.scheduler, name="scheduler"),
    path("t/<slug:slug>/scheduler/state", scheduler.scheduler_state, name="scheduler_state"),
    path(
        "t/<slug:slug>/scheduler/tenants/<uuid:tenant_id>/act/<slug:act>",
        scheduler.frozen_tenant_act,
        name="frozen_tenant_act",
    ),
    path("t/<slug:slug>/scheduler/act/<slug:act>", scheduler.scheduler_act, name="scheduler_act"),
    path("t/<slug:slug>/tasks/", tasks.tasks, name="tasks"),
    path("t/<slug:slug>/tasks/new", tasks.new_task, name="task_new"),
    path("t/<slug:slug>/tasks/handlers", tasks.handlers, name="task_handlers"),
    path("t/<slug:slug>/tasks/check", saving.check, name="task_new_check"),
    path("t/<slug:slug>/tasks/save", saving.save, name="task_new_save"),
    path("t/<slug:slug>/tasks/crontab", crontab.page, name="crontab"),
    path("t/<slug:slug>/tasks/crontab/check", crontab.check, name="crontab_check"),
    path("t/<slug:slug>/tasks/crontab/import", crontab.take, name="crontab_import"),
    path("t/<slug:slug>/tasks/act/<slug:act>", task_acts.tasks_act, name="tasks_act"),
    path("t/<slug:slug>/tasks/<uuid:task_id>/", tasks.task, name="task"),
    path("t/<slug:slug>/tasks/<uuid:task_id>/edit", tasks.edit_task, name="task_edit"),
    path("t/<slug:slug>/tasks/<uuid:task_id>/check", saving.check, name="task_check"),
    path("t/<slug:slug>/tasks/<uuid:task_id>/save", saving.save, name="task_save"),
    path("t/<slug:slug>/tasks/<uuid:task_id>/act/<slug:act>", task_acts.task_act, name="task_act"),
    path("t/<slug:slug>/tasks/<uuid:task_id>/backfills/", backfills.page, name="task_backfills"),
    path("t/<slug:slug>/tasks/<uuid:task_id>/backfills/state", backfills.state, name="task_backfills_state"),
    path("t/<slug:slug>/tasks/<uuid:task_id>/backfills/check", backfill_acts.check, name="task_backfill_check"),
    path("t/<slug:slug>/tasks/<uuid:task_id>/backfills/start", backfill_acts.start, name="task_backfill_start"),
    path("t/<slug:slug>/dead-letters/", letters.letters, name="letters"),
    path("t/<slug:slug>/dead-letters/state", letters.letters_state, name="letters_state"),
    path("t/<slug:slug>/dead-letters/count", letters.letters_count, name="letters_count"),
    path("t/<slug:slug>/dead-letters/act/<slug:act>", letter_acts.some_act, name="letters_act"),
    path("t/<slug:slug>/dead-letters/replays/<uuid:replay_id>/stop", letter_acts.stop, name="stop_replay"),
    path("t/<slug:slug>/dead-letters/<uuid:identity>/", letters.letter, name="letter"),
    path("t/<slug:slug>/dead-letters/<uuid:identity>/act/<slug:act>", letter_acts.one_act, name="letter_act"),
    path("t/<slug:slug>/dags/", dags.dags, name="dags"),
    path("t/<slug:slug>/dags/state", dags.runs_state, name="runs_state"),
    path("t/<slug:slug>/dags/new", dag_editing.new_dag, name="dag_new"),
    path("t/<slug:slug>/dags/check", dag_editing.check, name="dag_new_check"),
    path("t/<slug:slug>/dags/save", dag_editing.save, name="dag_new_save"),
    path("t/<slug:slug>/dags/<uuid:dag_id>/", dags.dag, name="dag"),
    path("t/<slug:slug>/dags/<uuid:dag_id>/edit", dag_editing.edit_dag, name="dag_edit"),
    path("t/<slug:slug>/dags/<uuid:dag_id>/check", dag_editing.check, name="dag_check"),
    path("t/<slug:slug>/dags/<uuid:dag_id>/save", dag_editing.save, name="dag_save"),
    path("t/<slug:slug>/dags/<uuid:dag_id>/grid", dags.dag_grid, name="dag_grid"),
    path("t/<slug:slug>/dags/<uuid:dag_id>/yaml", dags.dag_yaml, name="dag_yaml"),
    path("t/<slug:slug>/dags/<uuid:dag_id>/act/<slug:act>", acts.dag_act, name="dag_act"),
    path("t/<slug:slug>/dags/<uuid:dag_id>/backfills/", backfills.page, name="dag_backfills"),
    path("t/<slug:slug>/dags/<uuid:dag_id>/backfills/state", backfills.state, name="dag_backfills_state"),
    path("t/<slug:slug>/dags/<uuid:dag_id>/backfills/check", backfill_acts.check, name="dag_backfill_check"),
    path("t/<slug:slug>/dags/<uuid:dag_id>/backfills/start", backfill_acts.start, name="dag_backfill_start"),
    path("t/<slug:slug>/backfills/<uuid:backfill_id>/stop", backfill_acts.stop, name="stop_backfill"),
    path("t/<slug:slug>/runs/<uuid:run_id>/", dags.run, name="run"),
    path("t/<slug:slug>/runs/<uuid:run_id>/state", dags.run_state, name="run_state"),
    path("t/<slug:slug>/runs/<uuid:run_id>/gantt", dags.run_gantt, name="run_gantt"),
    path("t/<slug:slug>/runs/<uuid:run_id>/act/<slug:act>", acts.run_act, name="run_act"),
    path("t/<slug:slug>/runs/<uuid:run_id>/nodes/<str:node_id>/", dags.run_node, name="run_node"),
    path("t/<slug:slug>/runs/<uuid:run_id>/nodes/<str:node_id>/act/<slug:act>", acts.node_act, name="node_act"),
    path("t/<slug:slug>/audit/", audit.audit, name="audit"),
    path("t/<slug:slug>/audit/download", audit.audit_download, name="audit_download"),
    path("t/<slug:slug>/settings/", settings.tenant, name="settings"),
    path("t/<slug:slug>/settings/members", settings.members, name="settings_members"),
    path("t/<slug:slug>/settings/members/add", settings_acts.add_member, name="member_add"),
    path("t/<slug:slug>/settings/members/<str:username>/<slug:act>", settings_acts.member_act, name="member_act"),
    path("t/<slug:slug>/settings/keys", settings.keys, name="settings_keys"),
    path("t/<slug:slug>/settings/keys/make", settings_acts.make_key, name="key_make"),
    path("t/<slug:slug>/settings/keys/<uuid:key_id>/<slug:act>", settings_acts.key_act, name="key_act"),
    path("t/<slug:slug>/settings/secrets", settings.secrets, name="settings_secrets"),
    path("t/<slug:slug>/settings/secrets/make", settings_acts.make_secret, name="secret_make"),
    path("t/<slug:slug>/settings/secrets/<str:name>/<slug:act>", settings_acts.secret_act, name="secret_act"),
    path("t/<slug:slug>/settings/channels", settings.channels, name="settings_channels"),
    path("t/<slug:slug>/settings/channels/make", settings_acts.make_channel, name="channel_make"),
    path("t/<slug:slug>/settings/channels/<uuid:channel_id>/<slug:act>", settings_acts.channel_act, name="channel_act"),
    path("t/<slug:slug>/settings/limits", settings.limits_page, name="settings_limits"),
    path("t/<slug:slug>/settings/circuits/<int:circuit_id>/<slug:act>", settings_acts.circuit_act, name="circuit_act"),
    path("login/", throttled(_login), name="login"),
    path("login/<str:token>", views.login_by_link, name="login_by_link"),
    path("logout/", LogoutView.as_view(), name="logout"),
]
