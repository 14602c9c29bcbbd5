"""Runs of DAGs, as SQL: partitioned by the run's day, like the executions that belong to them.

Primary keys begin with the run, so that a run is found by its id alone; its executions have its scheduled_at, so they
are in the partition of the same day. `executions_of_run` has entries for executions of runs only, and its columns
never change: it costs other executions nothing and keeps updates HOT.

No second index of edges or nodes begins with the run: on a day that was never analysed it looks as good as the primary
key, and each edge would be sought among all of its run. So a node knows its parents itself.
"""

EXTEND = """
ALTER TABLE executions
    ADD COLUMN dag_run_id uuid,
    ADD COLUMN dag_node integer,
    ADD COLUMN dag_item integer,
    ADD COLUMN dag_generation integer;
CREATE INDEX executions_of_run ON executions (dag_run_id, dag_node, dag_item) WHERE dag_run_id IS NOT NULL;
"""

EXTEND_BACK = """
DROP INDEX executions_of_run;
ALTER TABLE executions DROP COLUMN dag_run_id, DROP COLUMN dag_node, DROP COLUMN dag_item, DROP COLUMN dag_generation;
"""

CREATE = """
CREATE TABLE dag_runs (
    id uuid NOT NULL,
    scheduled_at timestamptz NOT NULL,
    run_at timestamptz NOT NULL,
    nominal_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    deadline_at timestamptz,
    paused_at timestamptz,
    tenant_id uuid NOT NULL,
    dag_id uuid NOT NULL,
    dag_version_id bigint NOT NULL,
    timeout_seconds integer,
    nodes integer NOT NULL,
    open_nodes integer NOT NULL,
    version integer NOT NULL DEFAULT 1,
    status smallint NOT NULL DEFAULT 0 CONSTRAINT dag_runs_status_is_known CHECK (status BETWEEN 0 AND 5),
    ending smallint CONSTRAINT dag_runs_ending_is_known CHECK (ending BETWEEN 3 AND 5),
    failure_policy smallint NOT NULL,
    origin smallint NOT NULL,
    actor text NOT NULL,
    idempotency_key text NOT NULL,
    parameters jsonb NOT NULL,
    PRIMARY KEY (id, scheduled_at)
) PARTITION BY RANGE (scheduled_at);
CREATE UNIQUE INDEX dag_runs_once ON dag_runs (dag_id, idempotency_key, scheduled_at);
CREATE INDEX dag_runs_of_dag ON dag_runs (dag_id, id DESC);
CREATE INDEX dag_runs_of_tenant ON dag_runs (tenant_id, id DESC);
CREATE INDEX dag_runs_open ON dag_runs (dag_id) WHERE status = 0;
CREATE INDEX dag_runs_deadline ON dag_runs (deadline_at) WHERE deadline_at IS NOT NULL;

CREATE TABLE run_nodes (
    scheduled_at timestamptz NOT NULL,
    run_id uuid NOT NULL,
    task_id uuid NOT NULL,
    execution_id uuid,
    released_at timestamptz,
    finished_at timestamptz,
    deadline_at timestamptz,
    version_id bigint NOT NULL,
    node integer NOT NULL,
    generation integer NOT NULL DEFAULT 1,
    open integer NOT NULL,
    succeeded integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    skipped integer NOT NULL DEFAULT 0,
    errors integer NOT NULL DEFAULT 0,
    items integer,
    items_open integer NOT NULL DEFAULT 0,
    items_succeeded integer NOT NULL DEFAULT 0,
    items_failed integer NOT NULL DEFAULT 0,
    items_skipped integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL,
    queue_seconds integer,
    kind smallint NOT NULL,
    rule smallint NOT NULL,
    priority smallint NOT NULL,
    state smallint NOT NULL DEFAULT 0 CONSTRAINT run_nodes_state_is_known CHECK (state BETWEEN 0 AND 6),
    node_id text NOT NULL,
    parents integer[] NOT NULL,
    map_over text,
    approval jsonb,
    error jsonb,
    PRIMARY KEY (run_id, node, scheduled_at),
    CONSTRAINT run_nodes_counts CHECK (open >= 0 AND items_open >= 0)
) PARTITION BY RANGE (scheduled_at);
CREATE UNIQUE INDEX run_nodes_named ON run_nodes (node_id, run_id, scheduled_at);
CREATE INDEX run_nodes_active ON run_nodes (run_id) WHERE state = 1;
CREATE INDEX run_nodes_deadline ON run_nodes (deadline_at) WHERE deadline_at IS NOT NULL;

CREATE TABLE task_dependencies (
    scheduled_at timestamptz NOT NULL,
    run_id uuid NOT NULL,
    parent integer NOT NULL,
    child integer NOT NULL,
    item integer NOT NULL DEFAULT -1,
    outcome smallint CONSTRAINT task_dependencies_outcome_is_known CHECK (outcome BETWEEN 0 AND 3),
    condition jsonb,
    error jsonb,
    PRIMARY KEY (run_id, parent, child, item, scheduled_at)
) PARTITION BY RANGE (scheduled_at);

DO $$ DECLARE day text; low text; high text; parent text; BEGIN
    FOR day, low, high IN
        SELECT right(c.relname, 8), b.bounds[1], b.bounds[2]
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid,
            regexp_match(pg_get_expr(c.relpartbound, c.oid), $b$FROM \\('(.*)'\\) TO \\('(.*)'\\)$b$) b(bounds)
        WHERE i.inhparent = 'executions'::regclass
    LOOP
        FOREACH parent IN ARRAY ARRAY['dag_runs', 'run_nodes', 'task_dependencies'] LOOP
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L) WITH (fillfactor = 70)',
                parent || '_' || day, parent, low, high);
        END LOOP;
    END LOOP;
END $$;
"""

DROP = "DROP TABLE task_dependencies, run_nodes, dag_runs;"
