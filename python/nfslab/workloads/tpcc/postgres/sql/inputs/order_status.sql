-- Order-Status (clause 2.6).
{{ home() }}
\set d random(1, 10)
{{ customer() }}
