# The reference: Iceberg's newest release, the newest Spark it has a runtime for, and drivers for its JDBC catalog.
JVM_PYSPARK := 4.1.4
JVM_JARS := org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 org.xerial:sqlite-jdbc:3.53.4.0 org.postgresql:postgresql:42.7.11
# Kafka's newest release, for a broker.
KAFKA := org.apache.kafka:kafka_2.13:4.3.1
