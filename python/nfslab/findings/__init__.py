"""What makes one point slower than another: findings, ranked, each with its evidence."""
