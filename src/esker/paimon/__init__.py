"""Apache Paimon's formats: the same five nouns as Iceberg's, written in another way."""
