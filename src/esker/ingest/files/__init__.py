"""Which files hold something new: found, recognised after a rename or a rotation, and planned in batches."""
