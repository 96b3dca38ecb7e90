"""What the target must look like besides the records: topics, settings, ACLs, groups."""
