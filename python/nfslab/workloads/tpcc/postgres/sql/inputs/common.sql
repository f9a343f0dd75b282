{% macro nurand(most_or, least, most, constant) -%}
((random(0, {{ most_or }}) | random({{ least }}, {{ most }})) + {{ constant }}) % {{ most - least + 1 }} + {{ least }}
{%- endmacro %}
{% macro other() -%}
(:w - 1 + random(1, greatest(1, :warehouses - 1))) % :warehouses + 1
{%- endmacro %}
{% macro home() -%}
\set w CASE WHEN :fixed_homes THEN :client_id % :warehouses + 1 ELSE random(1, :warehouses) END
{%- endmacro %}
{% macro customer() -%}
\set by_name CASE WHEN random(1, 100) <= 60 THEN 1 ELSE 0 END
\set c {{ nurand(1023, 1, 3000, ":c_customer") }}
\set name {{ nurand(255, 0, 999, ":c_name") }}
{%- endmacro %}
