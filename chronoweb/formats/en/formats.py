"""How the admin writes times: sortable, and to the second, since schedules are."""

DATETIME_FORMAT = "Y-m-d H:i:s"
