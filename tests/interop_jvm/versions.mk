# The reference: Iceberg's newest release, the newest Spark it has a runtime for, and drivers for its JDBC catalog.
JVM_PYSPARK := 4.1.4
JVM_JARS := org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 org.xerial:sqlite-jdbc:3.53.4.0 org.postgresql:postgresql:42.7.11
# Kafka's newest release, for a broker, and what prints its log.
KAFKA := org.apache.kafka:kafka_2.13:4.3.1 org.slf4j:slf4j-simple:1.7.36
# A REST catalog that is not Iceberg's own; it needs Java 21 or newer.
NESSIE := org.projectnessie.nessie:nessie-quarkus:0.99.0:jar:runner
# Hadoop's file system for S3, in the release that PySpark's newest one has, and the AWS SDK that it needs (700 MB).
HADOOP_AWS := org.apache.hadoop:hadoop-aws:3.5.0
# Iceberg's own REST catalog server, over its JDBC catalog; the newest release that has one.
REST_SERVER := org.apache.iceberg:iceberg-open-api:1.11.0:jar:test-fixtures org.apache.iceberg:iceberg-core:1.11.0 \
	org.apache.iceberg:iceberg-core:1.11.0:jar:tests org.apache.iceberg:iceberg-api:1.11.0:jar:tests \
	org.apache.iceberg:iceberg-common:1.11.0 org.apache.iceberg:iceberg-bundled-guava:1.11.0 \
	org.xerial:sqlite-jdbc:3.53.4.0 org.slf4j:slf4j-simple:2.0.17 org.apache.hadoop:hadoop-client-api:3.4.2 \
	org.apache.hadoop:hadoop-client-runtime:3.4.2 org.eclipse.jetty:jetty-server:12.1.13 \
	org.eclipse.jetty.ee10:jetty-ee10-servlet:12.1.13 org.eclipse.jetty.compression:jetty-compression-server:12.1.13 \
	org.eclipse.jetty.compression:jetty-compression-gzip:12.1.13
# Iceberg's compatibility kit for REST catalogs, and what runs it.
REST_KIT := $(REST_SERVER) org.apache.iceberg:iceberg-open-api:1.11.0:jar:tests org.assertj:assertj-core:3.27.3 \
	org.awaitility:awaitility:4.3.0 org.mockito:mockito-core:4.11.0 org.junit.platform:junit-platform-console:1.13.4 \
	org.junit.platform:junit-platform-suite:1.13.4 org.junit.jupiter:junit-jupiter:5.13.4
# Paimon's own library, and the parts of Hadoop that it needs.
PAIMON := org.apache.paimon:paimon-bundle:1.4.2 org.apache.hadoop:hadoop-client-api:3.4.2 \
	org.apache.hadoop:hadoop-client-runtime:3.4.2
# Other readers of Paimon tables in Python. They need older versions of Arrow, so each has an environment of its own.
PYPAIMON := pypaimon==2.1.0
PYPAIMON_RUST := pypaimon-rust==0.4.0 pyarrow
