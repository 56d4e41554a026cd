-- What failed when a command last ran in a directory: a name in each line; none if all succeeded.
CREATE TABLE last_failures (
    command_hash TEXT NOT NULL,
    cwd TEXT NOT NULL,
    names TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (command_hash, cwd)
);
