"""MariaDB under load: where the time of its clients' threads goes, and its own counters.

calls         what a thread waits for, of the call that it is in
descriptors   the class of the file behind a descriptor
exact_times   every pause of every thread (eBPF);  looks: the same, looked at now and then
collector     runs them beside a load;  kind: facts and a section of reports
"""
