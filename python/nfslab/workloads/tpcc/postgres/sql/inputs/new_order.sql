-- New-Order (clause 2.4).
{{ home() }}
\set d random(1, 10)
\set c {{ nurand(1023, 1, 3000, ":c_customer") }}
\set lines random(5, 15)
{% for n in range(1, 16) %}
\set i{{ n }} {{ nurand(8191, 1, 100000, ":c_item") }}
\set s{{ n }} CASE WHEN random(1, 100) = 1 THEN {{ other() }} ELSE :w END
\set q{{ n }} random(1, 10)
{% endfor %}
-- One order in a hundred has an item that is not there, as its last line.
\set unused CASE WHEN random(1, 100) = 1 THEN :lines ELSE 0 END
