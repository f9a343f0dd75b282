"""Tables of pages that are no sections yet."""
