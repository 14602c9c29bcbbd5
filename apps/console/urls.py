"""Addresses of the console. A tenant stands in the URL, so that a copied link opens what its sender saw."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from apps.console import views
from apps.console.dags import acts
from apps.console.dags import views as dags
from apps.console.letters import acts as letter_acts
from apps.console.letters import views as letters
from apps.console.overview import views as overview
from apps.console.tasks import acts as task_acts
from apps.console.tasks import saving
from apps.console.tasks import views as tasks
from apps.console.throttle import throttled

_login = LoginView.as_view(template_name="console/login.html", redirect_authenticated_user=True)

app_name = "console"
urlpatterns = [
    path("", views.home, name="home"),
    path("console/executions/", views.home),
    path("t/<slug:slug>/", overview.overview, name="overview"),
    path("t/<slug:slug>/state", overview.overview_state, name="overview_state"),
    path("t/<slug:slug>/find", views.found, name="find"),
    path("t/<slug:slug>/executions/", views.executions, name="executions"),
    path("t/<slug:slug>/executions/<uuid:identity>/", views.execution, name="execution"),
    path("t/<slug:slug>/workers/", views.workers, name="workers"),
    path("t/<slug:slug>/executions/<uuid:identity>/logs", views.logs, name="logs"),
    path("t/<slug:slug>/executions/<uuid:identity>/logs/download", views.download_logs, name="download_logs"),
    path("t/<slug:slug>/executions/state", views.executions_state, name="executions_state"),
    path("t/<slug:slug>/tasks/", tasks.tasks, name="tasks"),
    path("t/<slug:slug>/tasks/new", tasks.new_task, name="task_new"),
    path("t/<slug:slug>/tasks/check", saving.check, name="task_new_check"),
    path("t/<slug:slug>/tasks/save", saving.save, name="task_new_save"),
    path("t/<slug:slug>/tasks/act/<slug:act>", task_acts.tasks_act, name="tasks_act"),
    path("t/<slug:slug>/tasks/<uuid:task_id>/", tasks.task, name="task"),
    path("t/<slug:slug>/tasks/<uuid:task_id>/edit", tasks.edit_task, name="task_edit"),
    path("t/<slug:slug>/tasks/<uuid:task_id>/check", saving.check, name="task_check"),
    path("t/<slug:slug>/tasks/<uuid:task_id>/save", saving.save, name="task_save"),
    path("t/<slug:slug>/tasks/<uuid:task_id>/act/<slug:act>", task_acts.task_act, name="task_act"),
    path("t/<slug:slug>/dead-letters/", letters.letters, name="letters"),
    path("t/<slug:slug>/dead-letters/state", letters.letters_state, name="letters_state"),
    path("t/<slug:slug>/dead-letters/count", letters.letters_count, name="letters_count"),
    path("t/<slug:slug>/dead-letters/act/<slug:act>", letter_acts.some_act, name="letters_act"),
    path("t/<slug:slug>/dead-letters/replays/<uuid:replay_id>/stop", letter_acts.stop, name="stop_replay"),
    path("t/<slug:slug>/dead-letters/<uuid:identity>/", letters.letter, name="letter"),
    path("t/<slug:slug>/dead-letters/<uuid:identity>/act/<slug:act>", letter_acts.one_act, name="letter_act"),
    path("t/<slug:slug>/dags/", dags.dags, name="dags"),
    path("t/<slug:slug>/dags/state", dags.runs_state, name="runs_state"),
    path("t/<slug:slug>/dags/<uuid:dag_id>/", dags.dag, name="dag"),
    path("t/<slug:slug>/dags/<uuid:dag_id>/grid", dags.dag_grid, name="dag_grid"),
    path("t/<slug:slug>/dags/<uuid:dag_id>/yaml", dags.dag_yaml, name="dag_yaml"),
    path("t/<slug:slug>/dags/<uuid:dag_id>/act/<slug:act>", acts.dag_act, name="dag_act"),
    path("t/<slug:slug>/runs/<uuid:run_id>/", dags.run, name="run"),
    path("t/<slug:slug>/runs/<uuid:run_id>/state", dags.run_state, name="run_state"),
    path("t/<slug:slug>/runs/<uuid:run_id>/gantt", dags.run_gantt, name="run_gantt"),
    path("t/<slug:slug>/runs/<uuid:run_id>/act/<slug:act>", acts.run_act, name="run_act"),
    path("t/<slug:slug>/runs/<uuid:run_id>/nodes/<str:node_id>/", dags.run_node, name="run_node"),
    path("t/<slug:slug>/runs/<uuid:run_id>/nodes/<str:node_id>/act/<slug:act>", acts.node_act, name="node_act"),
    path("login/", throttled(_login), name="login"),
    path("login/<str:token>", views.login_by_link, name="login_by_link"),
    path("logout/", LogoutView.as_view(), name="logout"),
]
