-- The server computes for some milliseconds without waiting for anything.
SELECT sum(n) FROM generate_series(1, 20000) AS n;
