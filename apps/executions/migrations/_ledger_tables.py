"""The ledger's partitioned tables, as SQL: Django cannot declare partitions.

`executions` has five indexes and none names the status or the worker: without such an index most of its updates
are HOT; those that later migrations add have entries of few rows. `wake_at` is in a partial index, by class and tenant,
so that the preloader takes them in turn whatever the backlog of one. Partitions are made by executions/partitions.py.
"""

CREATE = """
CREATE TABLE executions (
    id uuid NOT NULL,
    scheduled_at timestamptz NOT NULL,
    run_at timestamptz NOT NULL,
    nominal_at timestamptz,
    wake_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    dispatched_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz,
    cancel_requested_at timestamptz,
    token bigint NOT NULL DEFAULT 0,
    tenant_id uuid NOT NULL,
    task_id uuid NOT NULL,
    rerun_of uuid,
    task_version_id bigint NOT NULL,
    worker_id bigint,
    version integer NOT NULL DEFAULT 1,
    attempt integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL,
    status smallint NOT NULL DEFAULT 0,
    hold smallint NOT NULL DEFAULT 0,
    class smallint NOT NULL,
    priority smallint NOT NULL,
    origin smallint NOT NULL,
    overlap smallint NOT NULL,
    slot_key text,
    idempotency_key text NOT NULL,
    traceparent text,
    payload jsonb,
    result jsonb,
    error jsonb,
    PRIMARY KEY (scheduled_at, id),
    CONSTRAINT executions_status_is_known CHECK (status BETWEEN 0 AND 9),
    CONSTRAINT executions_hold_is_known CHECK (hold BETWEEN 0 AND 4),
    CONSTRAINT executions_class_is_known CHECK (class BETWEEN 0 AND 2),
    CONSTRAINT executions_priority_range CHECK (priority BETWEEN 1 AND 10),
    CONSTRAINT executions_attempt_not_negative CHECK (attempt >= 0 AND max_attempts >= 1)
) PARTITION BY RANGE (scheduled_at);
CREATE UNIQUE INDEX executions_once ON executions (tenant_id, idempotency_key, scheduled_at);
CREATE INDEX executions_wake ON executions (class, tenant_id, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX executions_of_task ON executions (task_id, id DESC);
CREATE INDEX executions_of_tenant ON executions (tenant_id, id DESC);

CREATE TABLE attempts (
    scheduled_at timestamptz NOT NULL,
    execution_id uuid NOT NULL,
    attempt integer NOT NULL,
    token bigint NOT NULL,
    tenant_id uuid NOT NULL,
    worker_id bigint NOT NULL,
    outcome smallint NOT NULL CONSTRAINT attempts_outcome_is_known CHECK (outcome BETWEEN 0 AND 5),
    due_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz NOT NULL,
    error jsonb,
    PRIMARY KEY (scheduled_at, execution_id, attempt, token)
) PARTITION BY RANGE (scheduled_at);

CREATE TABLE execution_events (
    scheduled_at timestamptz NOT NULL,
    execution_id uuid NOT NULL,
    event_id bigint NOT NULL,
    tenant_id uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    source smallint,
    target smallint NOT NULL,
    token bigint NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (scheduled_at, execution_id, event_id)
) PARTITION BY RANGE (scheduled_at);
CREATE SEQUENCE execution_event_ids CACHE 100;
ALTER TABLE execution_events ALTER event_id SET DEFAULT nextval('execution_event_ids');
"""

DROP = """
DROP TABLE execution_events, attempts, executions;
DROP SEQUENCE execution_event_ids;
"""

TUNE = """
ALTER TABLE outstanding SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
ALTER TABLE slots SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
CREATE INDEX outstanding_by_age ON outstanding (dispatched_at);
"""
