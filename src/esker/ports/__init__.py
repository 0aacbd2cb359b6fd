"""Ports: the protocols of catalogs, storages, table formats and engines. The read and write paths use only these."""
