"""Single queries on a database of its own: what each costs, and what it asks of the storage.

data         the rows, the same on every engine, and sums of them: what a right answer is
queries      which queries there are, and the right answer of each
parameters   what an experiment asks for
dialect      what an engine has to be able to do; one folder (postgres/, ...) for each
statements   what a query is made of; texts: those that engines share
loading      the data set as tables
session      what a session does on any engine
plans        a plan compared with the intended one
workload     the way of one run
"""
