//! (written by its own part)
