"""The choice between engines: Arrow in this process, or Spark. Spark is loaded only when it is chosen."""
