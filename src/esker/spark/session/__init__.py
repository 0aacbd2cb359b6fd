"""The Spark session: found or started, its jobs named and watched, its JVM called."""
