"""Web serving over the storage, in the manner of SPECweb99: a file set, a web server, its load."""
