-- Runs in the order of their ends; the texts sort as the times do, since all are in
-- UTC. What a call reads many rows of stands in the index itself.
CREATE INDEX idx_hash_time ON observations(
    command_hash, created_at, outcome_type, timed_out, exit_code, failure_fingerprint);
CREATE INDEX idx_hash_runs
    ON observations(command_hash, created_at, duration_ms, outcome_type, timed_out, exit_code)
    WHERE duration_ms > 0;
CREATE INDEX idx_template_runs
    ON observations(command_template, created_at, duration_ms, outcome_type, timed_out, exit_code)
    WHERE duration_ms > 0;
CREATE INDEX idx_outcome_type ON observations(outcome_type);

CREATE INDEX idx_recent_outcome ON recent_commands(outcome_type);
CREATE INDEX idx_session_hash ON recent_commands(
    session_id, command_hash, timestamp, outcome_type, timed_out, success);
CREATE INDEX idx_session_template ON recent_commands(
    session_id, command_template, timestamp, outcome_type, timed_out, success);
CREATE INDEX idx_recent_time ON recent_commands(timestamp);

CREATE INDEX idx_host_time ON ssh_observations(host, created_at, exit_type);
CREATE INDEX idx_remote_time
    ON ssh_observations(remote_command_template, created_at, exit_type, host);

-- Counts of a kind of command, kept by triggers, so that nobody counts rows.
CREATE TABLE template_totals (
    command_template TEXT PRIMARY KEY,
    runs INTEGER NOT NULL,
    successes INTEGER NOT NULL,
    kills INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER count_observation AFTER INSERT ON observations
WHEN new.command_template IS NOT NULL BEGIN
    INSERT INTO template_totals VALUES (
        new.command_template, 1,
        coalesce(new.outcome_type = 'SUCCESS',
                 new.exit_code = 0 AND coalesce(new.timed_out, 0) = 0, 0),
        coalesce(new.outcome_type = 'KILLED', 0))
    ON CONFLICT (command_template) DO UPDATE SET
        runs = runs + 1,
        successes = successes + excluded.successes,
        kills = kills + excluded.kills;
END;
CREATE TRIGGER discount_observation AFTER DELETE ON observations
WHEN old.command_template IS NOT NULL BEGIN
    UPDATE template_totals SET
        runs = runs - 1,
        successes = successes
            - coalesce(old.outcome_type = 'SUCCESS',
                       old.exit_code = 0 AND coalesce(old.timed_out, 0) = 0, 0),
        kills = kills - coalesce(old.outcome_type = 'KILLED', 0)
    WHERE command_template = old.command_template;
    DELETE FROM template_totals WHERE command_template = old.command_template AND runs <= 0;
END;

CREATE TABLE circuits (
    command_hash TEXT PRIMARY KEY,
    command_preview TEXT NOT NULL,
    opened_at REAL,
    half_open INTEGER NOT NULL DEFAULT 0,
    lease_owner TEXT,
    lease_taken_at REAL,
    lease_until REAL
);
CREATE TABLE circuit_timeouts (
    command_hash TEXT NOT NULL REFERENCES circuits(command_hash) ON DELETE CASCADE,
    at REAL NOT NULL,
    allowed REAL
);
CREATE INDEX idx_circuit_timeouts ON circuit_timeouts(command_hash, at);

-- How far each server has written its queue: in the same transaction as the rows, so
-- that a reader knows which of its queued rows it already sees.
CREATE TABLE written (
    instance TEXT PRIMARY KEY,
    sequence INTEGER NOT NULL,
    at REAL NOT NULL
) WITHOUT ROWID;
