"""Files of tables in S3 for clients that have no key: credentials for a short time, and signatures of requests."""
