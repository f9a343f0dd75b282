"""What serves the documents: ours, nginx, or one that runs already."""
