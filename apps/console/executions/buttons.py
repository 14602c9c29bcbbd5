"""The buttons of executions: what each says, asks and needs. acts.py does what they say."""

from apps.console.buttons import Act

ONE = (
    Act(
        "anew",
        "Try now",
        "Not wait for its next attempt?",
        "It is cancelled, and one with its parameters begins at once, under its task as that is now.",
        "delayed !asked",
    ),
    Act(
        "cancel",
        "Cancel",
        "Cancel this execution?",
        "What waits is cancelled at once. What a worker has is asked to stop, and taken from it 30 s later.",
        "!resting !asked",
        danger=True,
    ),
    Act(
        "retry",
        "Run again",
        "Run this once more?",
        "A new execution with the same parameters, as it was then: under the version that this one had, due now. This "
        "one stays as it is. A node of a run is cleared, with what comes after it. As the task is now it runs by "
        "“Run now” on its page.",
        "resting !dead",
    ),
    Act(
        "retry",
        "Replay",
        "Send this dead letter round again?",
        "Due now, under its task as that is now, with a fresh budget of attempts; it goes on behind the checkpoint "
        "that it left.",
        "dead",
    ),
)

MANY = (
    (
        "cancel",
        "Cancel",
        "Cancel now",
        "Those that wait are cancelled at once; what a worker has is asked to stop. What has ended by then is told.",
    ),
    (
        "retry",
        "Run again",
        "Run again",
        "Each of those that have ended once more, due now: dead letters under their own id, all others as new "
        "executions. What is refused hinders nothing else.",
    ),
)
"""Act, title, label, text."""
