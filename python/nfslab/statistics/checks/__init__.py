"""Validity checks: can these figures be true, and do they describe a steady machine?

Each check is a pure function that returns one `Check`. "violation" means that the figures
contradict arithmetic or physics, "warning" that a person has to look before relying on
them, "unknown" that what the check needs was not measured (said in the message).
"""
