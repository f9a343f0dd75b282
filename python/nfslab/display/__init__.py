"""What reports show, as data: numbers, tables, figures, sections. No output is known here."""
