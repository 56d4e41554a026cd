-- How many transactions have changed the history, of each server and (with an empty name) of
-- all, so that a server knows by one look whether others have changed it. The count of all
-- begins at a random number: a new file in place of another never looks unchanged.
ALTER TABLE written ADD COLUMN transactions INTEGER NOT NULL DEFAULT 0;
INSERT INTO written (instance, sequence, at, transactions)
    VALUES ('', 0, 0, abs(random() % 1000000000000));
