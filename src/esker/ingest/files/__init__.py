"""Which files have something new: finds them, recognises them after a rename or a rotation, and plans batches."""
