"""The buttons of DAGs, runs and nodes: what each says, asks and needs, in one place. acts.py does what they say."""

from apps.console.buttons import Act

RUN_ACTS = (
    Act(
        "pause", "Pause", "Pause this run?", "Nothing more is released; what runs goes on.", "running !paused !stopping"
    ),
    Act(
        "resume",
        "Resume",
        "Resume this run?",
        "What has become ready meanwhile is released.",
        "running paused !stopping",
    ),
    Act(
        "rerun",
        "Re-run from failed",
        "Run again what failed?",
        "Nodes that failed, were cancelled or could not run, and everything after them, run once more.",
        "bad",
    ),
    Act(
        "cancel",
        "Cancel run",
        "Cancel this run?",
        "What waits is cancelled, what runs is asked to stop. Only what was cancelled can be run again then.",
        "running !stopping",
        typed=True,
        note="Reason",
        danger=True,
    ),
)
NODE_ACTS = (
    Act("approve", "Approve", "Approve?", "What waits for this goes on.", "asks", note="Note"),
    Act(
        "reject",
        "Reject",
        "Reject?",
        "The node fails, and what depends on it cannot run.",
        "asks",
        note="Note",
        danger=True,
    ),
    Act("clear", "Clear", "Run this node again?", "It runs in a new generation; what was decided after it stays."),
    Act(
        "clear-downstream",
        "Clear and downstream",
        "Run this node and all after it again?",
        "What runs of them is fenced: it can commit nothing any more.",
        typed=True,
        danger=True,
    ),
    Act(
        "success",
        "Mark success",
        "Count this node as succeeded?",
        "What runs of it is stopped; what comes after it is decided anew.",
        "!good",
    ),
    Act(
        "failed",
        "Mark failed",
        "Count this node as failed?",
        "What runs of it is stopped; what comes after it is decided anew.",
        "!failed",
        typed=True,
        danger=True,
    ),
    Act("skip", "Skip", "Skip this node?", "What comes after it is decided by its rules.", "!skipped"),
)
DAG_ACTS = (
    Act(
        "pause",
        "Pause",
        "Pause this DAG?",
        "Its schedule starts nothing until it is resumed. Runs go on, and you can still run it by hand.",
        "!paused",
        note="Why, for who looks later",
    ),
    Act(
        "resume",
        "Resume",
        "Resume this DAG?",
        "Occurrences of the pause within the catch-up window run; older ones do not.",
        "paused",
    ),
    Act(
        "delete",
        "Delete",
        "Delete this DAG?",
        "Nothing starts it any more. Its runs go on; versions and history stay in the ledger.",
        typed=True,
        danger=True,
    ),
)
