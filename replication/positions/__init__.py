"""Where each partition of a flow resumes, or why it cannot. Reads; writes nothing."""
