"""Kafka itself: one node in KRaft mode, on the loopback alone, for the tests in ``tests/interop_jvm``."""

from __future__ import annotations

import base64
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from confluent_kafka.error import KafkaError
from free_ports import free_ports

START_S = 120
_LOG = "org.slf4j.simpleLogger.defaultLogLevel=warn"
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
log.dirs={data}
auto.create.topics.enable=false
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.num.partitions=1
"""


class RealBroker:
    """A broker that can be killed and started again. What it has is in its folder."""

    def __init__(self, jars: Path, folder: Path) -> None:
        self._folder = folder
        self._java = ["java", "-Xmx256m", f"-D{_LOG}", "-cp", f"{jars.resolve()}/*"]
        port, controller = free_ports(2)
        self.address = f"127.0.0.1:{port}"
        self._properties = folder / "server.properties"
        self._properties.write_text(_PROPERTIES.format(port=port, controller=controller, data=folder / "data"))
        self._process: subprocess.Popen[bytes] | None = None
        cluster = base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=").replace("-", "a")
        self._call("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._properties))
        self.start()
        self._admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        self._producer = Producer({"bootstrap.servers": self.address, "enable.idempotence": True, "log_level": 0})

    def start(self) -> None:
        """Start the process, and return when it answers. Where it ends by itself it is started again, as the service
        manager of a machine does; raises an AssertionError with the end of its log when it does not answer in time.
        """
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        until = time.monotonic() + START_S
        while True:
            if self._process is None or self._process.poll() is not None:
                self._launch()
            try:
                admin.list_topics(timeout=1)
            except KafkaException:
                assert time.monotonic() < until, (self._folder / "broker.log").read_text()[-3000:]
            else:
                return

    def _launch(self) -> None:
        with (self._folder / "broker.log").open("ab") as log:
            command = [*self._java, "kafka.Kafka", str(self._properties)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)

    def kill(self) -> None:
        """End the process as a failing machine does."""
        assert self._process is not None  # it was started
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)

    def make(self, topic: str, partitions: int) -> None:
        """A topic with nothing in it."""
        self._admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)

    def add_partitions(self, topic: str, total: int) -> None:
        """Let a topic have so many partitions."""
        self._admin.create_partitions([NewPartitions(topic, total)])[topic].result(30)
        self._producer = Producer(
            {"bootstrap.servers": self.address, "enable.idempotence": True, "log_level": 0}
        )  # the old one learns it late
        while len(self._producer.list_topics(topic, timeout=30).topics[topic].partitions) < total:
            time.sleep(0.1)

    def forget(self, topic: str, partition: int, before: int) -> None:
        """Delete what a partition has before an offset, as retention does."""
        from confluent_kafka import TopicPartition

        place = TopicPartition(topic, partition, before)
        self._admin.delete_records([place])[place].result(30)

    def send(self, topic: str, *values: bytes, partition: int = 0) -> None:
        """Messages outside of transactions; on the broker when this returns."""
        for value in values:
            self._producer.produce(topic, value, partition=partition, on_delivery=_check)
        assert self._producer.flush(60) == 0

    def transaction(self, topic: str, values: Sequence[bytes], *, partition: int = 0) -> Producer:
        """Send messages in a transaction that is open: commit or abort it. The broker aborts it after ten minutes."""
        producer = Producer(
            {
                "bootstrap.servers": self.address,
                "transactional.id": str(uuid4()),
                "transaction.timeout.ms": 600_000,
                "log_level": 0,
            }
        )
        producer.init_transactions(60)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=partition, on_delivery=_check)
        assert producer.flush(60) == 0
        return producer

    def close(self) -> None:
        """Stop it."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def _call(self, *arguments: str) -> None:
        done = subprocess.run(
            [*self._java, *arguments], capture_output=True, text=True, timeout=120, check=False, cwd=self._folder
        )
        assert done.returncode == 0, done.stdout + done.stderr


def _check(error: KafkaError | None, _: object) -> None:
    assert error is None, error
