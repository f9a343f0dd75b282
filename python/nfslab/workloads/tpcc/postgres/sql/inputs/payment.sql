-- Payment (clause 2.5).
{{ home() }}
\set d random(1, 10)
\set remote random(1, 100) > 85 AND :warehouses > 1
\set cw CASE WHEN :remote THEN {{ other() }} ELSE :w END
\set cd CASE WHEN :remote THEN random(1, 10) ELSE :d END
{{ customer() }}
\set cents random(100, 500000)
