"""What an operator asks for once; one file for each request."""
