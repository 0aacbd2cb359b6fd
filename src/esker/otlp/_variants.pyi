from collections.abc import Callable

import pyarrow as pa

def encode_rows(
    values: tuple[pa.Buffer | None, ...],
    kinds: tuple[pa.Buffer | None, ...],
    rows: int,
    nested: Callable[[bytes], bytes | None],
    /,
) -> tuple[bytes, bytes | None, bytes, bytes | None, bytes]: ...
