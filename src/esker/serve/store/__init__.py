"""The files of tables: which folders they have, how long they stay, and access in S3 for clients without a key."""
