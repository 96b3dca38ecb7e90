"""The checkpoint loop: rounds -> translate -> group_sync."""
