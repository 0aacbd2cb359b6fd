from esker.avro.shred import Data, SlotBuffers

class Shredder:
    def __init__(self, code: bytes, slots: int, limit: int, /) -> None: ...
    def feed(self, data: Data, at: int, rows: int, soft: int, /) -> tuple[int, int, int]: ...
    def feed_blocks(
        self,
        data: Data,
        at: int,
        sync: bytes,
        deflated: bool,
        limits: tuple[int, int],
        growth: tuple[int, int, int],
        /,
    ) -> tuple[int, int, int, int, int]: ...
    def finish(self) -> list[SlotBuffers]: ...
