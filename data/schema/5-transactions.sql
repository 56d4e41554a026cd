-- How many transactions have changed the history: in the row of each server those that wrote its
-- queue, in a row without a name all of them. Their difference shows a server whether any other
-- has changed it. The number of all begins at random, so that a new file is never taken for the
-- one before.
ALTER TABLE written ADD COLUMN transactions INTEGER NOT NULL DEFAULT 0;
INSERT INTO written (instance, sequence, at, transactions)
    VALUES ('', 0, 0, abs(random() % 1000000000000));
