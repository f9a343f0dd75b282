"""System calls on files: every sync timed, calls by class of files, and how they are watched."""
