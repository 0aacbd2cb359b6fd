"""Binary rows, bucket numbers, partition directories and deletion vectors."""
