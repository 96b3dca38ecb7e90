"""What few modules know: a folder or a file for each feature, with all its parts."""
