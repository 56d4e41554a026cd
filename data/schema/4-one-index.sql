-- The runs of a command with all that a call reads of them, in one index instead of two, so
-- that one pass reads them and a new row is added to one index less.
DROP INDEX idx_hash_time;
DROP INDEX idx_hash_runs;
CREATE INDEX idx_hash_runs ON observations(
    command_hash, created_at, duration_ms, outcome_type, timed_out, exit_code,
    failure_fingerprint);
