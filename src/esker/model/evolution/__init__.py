"""Changes of schemas and partition specs, each a function from one to the next, and the rules that they keep."""
