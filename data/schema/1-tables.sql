CREATE TABLE IF NOT EXISTS observations (
    id TEXT PRIMARY KEY,
    command_hash TEXT NOT NULL,
    command_template TEXT,
    command_preview TEXT,
    exit_code INTEGER,
    duration_ms INTEGER,
    timed_out INTEGER DEFAULT 0,
    output_snippet TEXT,
    error_snippet TEXT,
    weight REAL DEFAULT 1.0,
    created_at TEXT NOT NULL,
    last_accessed TEXT
);
CREATE INDEX IF NOT EXISTS idx_command_hash ON observations(command_hash);
CREATE INDEX IF NOT EXISTS idx_created_at ON observations(created_at);
CREATE INDEX IF NOT EXISTS idx_weight ON observations(weight);
CREATE INDEX IF NOT EXISTS idx_command_template ON observations(command_template);

CREATE TABLE IF NOT EXISTS recent_commands (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL,
    command_hash TEXT NOT NULL,
    command_template TEXT,
    command_preview TEXT,
    timestamp REAL NOT NULL,
    duration_ms INTEGER,
    exit_code INTEGER,
    timed_out INTEGER DEFAULT 0,
    success INTEGER DEFAULT 1
);
CREATE INDEX IF NOT EXISTS idx_recent_session ON recent_commands(session_id, timestamp DESC);
CREATE INDEX IF NOT EXISTS idx_recent_hash ON recent_commands(command_hash, timestamp DESC);
CREATE INDEX IF NOT EXISTS idx_recent_template ON recent_commands(command_template, timestamp DESC);

CREATE TABLE IF NOT EXISTS streaks (
    command_hash TEXT PRIMARY KEY,
    current_streak INTEGER DEFAULT 0,
    longest_success_streak INTEGER DEFAULT 0,
    longest_fail_streak INTEGER DEFAULT 0,
    last_result INTEGER,
    last_updated REAL
);

CREATE TABLE IF NOT EXISTS ssh_observations (
    id TEXT PRIMARY KEY,
    observation_id TEXT,
    host TEXT NOT NULL,
    remote_command TEXT,
    remote_command_template TEXT,
    exit_code INTEGER,
    exit_type TEXT,
    duration_ms INTEGER,
    timed_out INTEGER DEFAULT 0,
    weight REAL DEFAULT 1.0,
    created_at TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_ssh_host ON ssh_observations(host);
CREATE INDEX IF NOT EXISTS idx_ssh_remote_template ON ssh_observations(remote_command_template);
CREATE INDEX IF NOT EXISTS idx_ssh_exit_type ON ssh_observations(exit_type);

CREATE TABLE IF NOT EXISTS manopt_cache (
    base_command TEXT PRIMARY KEY,
    options_text TEXT NOT NULL,
    created_at TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS meta (
    key TEXT PRIMARY KEY,
    value TEXT
);
