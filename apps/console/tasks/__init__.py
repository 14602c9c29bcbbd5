"""Pages of tasks: the list, one task, and the form that makes or changes one."""
