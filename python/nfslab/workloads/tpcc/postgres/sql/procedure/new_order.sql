{% macro all(letter) -%}
ARRAY[{% for n in range(1, 16) %}:{{ letter }}{{ n }}{{ ", " if not loop.last }}{% endfor %}]::int[]
{%- endmacro %}
CALL tpcc_new_order(:w, :d, :c, :lines, :unused,
    {{ all("i") }},
    {{ all("s") }},
    {{ all("q") }}, NULL);
