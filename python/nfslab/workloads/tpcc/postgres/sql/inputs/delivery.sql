-- Delivery (clause 2.7), not deferred.
{{ home() }}
\set carrier random(1, 10)
