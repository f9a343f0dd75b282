"""Packet captures: reading them with the core, and what their analyses say in words.

`analysis` runs the core and waits for it; `anomalies` and `findings` turn counts into
sentences; `comparison` lays captures side by side with the statistics of `nfslab compare`;
`parquet` writes the calls as a table. How they are shown is the report's business.
"""
