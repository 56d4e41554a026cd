-- The kind of a command with a word that may be a subcommand (`tailscale up`), where its
-- template has none (`tailscale *`).
ALTER TABLE observations ADD COLUMN subcommand_template TEXT;
CREATE INDEX idx_subcommand_runs
    ON observations(
        subcommand_template, created_at, duration_ms, outcome_type, timed_out, exit_code)
    WHERE subcommand_template IS NOT NULL AND duration_ms > 0;
