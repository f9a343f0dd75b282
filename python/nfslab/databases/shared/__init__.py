"""What several engines have in common."""
