"""How the server is reached: its address, its processes, and limits on what connections and requests can use up."""
