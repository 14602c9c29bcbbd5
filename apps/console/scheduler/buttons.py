"""What may be done to the scheduler, and what comes of it. views.py does what they say."""

from apps.console.buttons import Act

FREEZE = Act(
    "freeze",
    "Freeze",
    "Freeze the scheduler?",
    "Nothing more is dispatched, of any tenant, until somebody thaws it. What runs goes on, what waits is kept, and "
    "schedules go on making executions: the longer it is frozen, the larger what comes due at once when it thaws.",
    "!frozen",
    typed=True,
    note="Why: every tenant reads this where its work waits",
    danger=True,
)
THAW = Act(
    "thaw",
    "Thaw",
    "Thaw the scheduler?",
    "All that has come due meanwhile is dispatched as fast as workers, quotas and fairness let it.",
    "frozen",
)


def thaw_tenant(slug: str) -> Act:
    """For one that is frozen alone."""
    return Act(
        "thaw",
        "Thaw",
        f"Thaw the tenant {slug}?",
        f"Its work is dispatched again at once: all of it that has come due meanwhile, as fast as workers, {slug}’s "
        "quotas and fairness let it; what is too late by its own limits is skipped or dropped as they say. What ought "
        "not to run any more is to be cancelled or paused before. It stays thawed until somebody freezes it again.",
    )


FAILOVERS = {
    "preloader": Act(
        "failover-preloader",
        "Fail over",
        "Depose the preloader?",
        "Its lease is taken away and its epoch grows, so that nothing it still writes is accepted. A standby leads "
        "about a second later; without one, the same process stands again. Until then nothing new enters the hot "
        "tier: what is in it goes on, and a trigger may begin a second late. Nothing is lost or run twice.",
        typed=True,
        danger=True,
    ),
    "dispatcher": Act(
        "failover-dispatcher",
        "Fail over",
        "Depose all dispatchers?",
        "The leases of all 16 shards are taken away and their epochs grow. Dispatchers that live take the shards again "
        "within about a second, and settle what the deposed ones had popped: what was not sent goes back, uncounted. "
        "Until then nothing is dispatched, of any tenant. Nothing is lost or run twice.",
        typed=True,
        danger=True,
    ),
    "watchdog": Act(
        "failover-watchdog",
        "Fail over",
        "Depose the watchdog?",
        "Its lease is taken away; a standby leads about a second later, or the same process again. Until then nobody "
        "takes back what lost workers held, and cancels are not enforced. Work goes on.",
        typed=True,
        danger=True,
    ),
}
