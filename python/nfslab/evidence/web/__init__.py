"""What a web server's clients saw: by kind of request, class of file, number of connections."""
