-- Stock-Level (clause 2.8).
{{ home() }}
\set d CASE WHEN :fixed_homes THEN :client_id / :warehouses % 10 + 1 ELSE random(1, 10) END
\set threshold random(10, 20)
