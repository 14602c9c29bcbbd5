"""The buttons of tasks: what each says, asks and needs. acts.py does what they say."""

from apps.console.buttons import Act

TASK_ACTS = (
    Act(
        "pause",
        "Pause",
        "Pause this task?",
        "Its schedule starts nothing until it is resumed. What runs goes on, and you can still run it by hand.",
        "!paused",
        note="Why, for who looks later",
    ),
    Act(
        "resume",
        "Resume",
        "Resume this task?",
        "Occurrences of the pause within the catch-up window run; older ones are skipped.",
        "paused",
    ),
    Act(
        "delete",
        "Delete",
        "Delete this task?",
        "Its schedule ends, what waits is cancelled, what runs may end. Its history and versions stay in the ledger.",
        typed=True,
        danger=True,
    ),
)
BULK_ACTS = (
    Act(
        "pause",
        "Pause",
        "Pause {}?",
        "Their schedules start nothing until they are resumed.",
        note="Why, for who looks later",
    ),
    Act(
        "resume",
        "Resume",
        "Resume {}?",
        "Occurrences of the pause within each catch-up window run; older ones are skipped.",
    ),
    Act("trigger", "Run now", "Run {} now?", "Each once, with its own parameters, whether it is paused or not."),
    Act(
        "delete",
        "Delete",
        "Delete {}?",
        "Their schedules end and what waits of them is cancelled. Those that DAGs use stay.",
        typed=True,
        danger=True,
    ),
)
"""`{}` stands for how many, such as "412 tasks"."""
