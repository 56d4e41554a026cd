-- What a run of a whole command has cost: CPU time, and the most memory that its processes occupied
-- together. NULL where it was not measured. The index has all that a call reads of a run.
ALTER TABLE observations ADD COLUMN cpu_ms INTEGER;
ALTER TABLE observations ADD COLUMN peak_bytes INTEGER;
DROP INDEX idx_hash_runs;
CREATE INDEX idx_hash_runs ON observations(
    command_hash, created_at, duration_ms, outcome_type, timed_out, exit_code,
    failure_fingerprint, cpu_ms, peak_bytes);
