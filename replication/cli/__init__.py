"""The command line. A file has the name of the control file whose answer it prints."""
