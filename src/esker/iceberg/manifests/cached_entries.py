"""The entries of manifests of which some are in the cache: those are used, the others are read, decoded and kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TypeAlias

from esker import avro
from esker.iceberg.manifests.manifest import decode_columns, entries_of
from esker.iceberg.manifests.manifest_cache import Found, ManifestCache
from esker.iceberg.manifests.slab import Slab, join_slabs, new_slab, spec_mark
from esker.iceberg.metadata.partition_and_sort import spec_of_manifest
from esker.model.partition_and_sort import PartitionSpec
from esker.ports.storage import Storage, file_tags, tags_last
from esker.ports.table_format import EntryColumns
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestFile
from esker.tree.table_metadata import TableMetadata

Job: TypeAlias = Callable[[], Iterable[Entries]]
Read: TypeAlias = Callable[[Sequence[ManifestFile]], Iterable[list[tuple[ManifestFile, bytes]]]]
Chunks: TypeAlias = Callable[[Sequence[ManifestFile]], Iterable[Sequence[ManifestFile]]]
_SMALL, _MANY = 16, 8
"""So many pieces of fewer manifests, such as those of appends one by one, are joined: each costs about the same."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Manifests that are side by side in a slab, in the order that was asked for."""

    slab: Slab
    first: int
    manifests: tuple[ManifestFile, ...]

    @property
    def last(self) -> int:
        return self.first + len(self.manifests)

    @property
    def is_whole(self) -> bool:
        return len(self.manifests) == len(self.slab.keys)


@dataclass(frozen=True, slots=True)
class CachedEntries:
    """One question to the cache: which columns of a table's manifests. ``read`` reads manifests in batches."""

    cache: ManifestCache
    storage: Storage
    read: Read
    metadata: TableMetadata
    columns: EntryColumns

    def jobs(self, manifests: Sequence[ManifestFile], chunks: Chunks) -> Iterator[Job]:
        """What gives the entries of manifests with one spec and content kind, in order. Missing ones are decoded in
        chunks."""
        spec = self.metadata.spec_by_id.get(manifests[0].spec_id)
        if spec is None:  # only the headers have it
            yield from (partial(self._decode, chunk, None, {}, None) for chunk in chunks(manifests))
            return
        keys = self._keys(manifests)
        mark, folder = spec_mark(spec), self._folder(manifests[0])
        found = self.cache.find([keys.get(m.path) for m in manifests], mark, self._metrics, folder)
        for piece in self._joined(_pieces(manifests, found), folder):
            if isinstance(piece, _Piece):
                yield partial(self._of_piece, piece, spec)
            else:
                yield from (partial(self._decode, chunk, spec, keys, folder) for chunk in chunks(piece))

    @property
    def _metrics(self) -> frozenset[int]:
        return frozenset(self.columns.metrics)

    def _keys(self, manifests: Sequence[ManifestFile]) -> dict[str, bytes]:
        """The key of each manifest by its path. An encrypted one has none, so that it is refused each time.

        A table that was dropped and made again at the same place has another UUID and other snapshots. So its
        manifests have other keys, even if a store has no more to say about an object than its name.
        """
        tags = file_tags(self.storage, [manifest.path for manifest in manifests])
        table = self.metadata.uuid or ""
        return {
            manifest.path: hashlib.blake2b(
                f"{tag}|{manifest.length}|{manifest.added_snapshot_id}|{table}".encode("utf-8", "surrogateescape"),
                digest_size=16,
            ).digest()
            for manifest, tag in zip(manifests, tags, strict=True)
            if tag is not None and not manifest.key_metadata
        }

    def _folder(self, manifest: ManifestFile) -> str | None:
        """Where slabs of this table are stored: by the folder of its manifests."""
        if not tags_last(self.storage):
            return None
        place = manifest.path.rpartition("/")[0]
        return hashlib.blake2b(place.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()

    def _joined(
        self, pieces: Sequence[_Piece | list[ManifestFile]], folder: str | None
    ) -> Iterator[_Piece | list[ManifestFile]]:
        """The pieces, with neighbours that are many and small joined to one slab, which replaces theirs."""
        for small, group in groupby(pieces, lambda piece: isinstance(piece, _Piece) and len(piece.manifests) < _SMALL):
            alike = list(group)
            whole = [piece for piece in alike if isinstance(piece, _Piece) and piece.is_whole]
            joined = join_slabs([piece.slab for piece in whole]) if small and len(whole) == len(alike) > _MANY else None
            if joined is None:
                yield from alike
                continue
            self.cache.add(joined, folder)
            yield _Piece(joined, 0, tuple(manifest for piece in whole for manifest in piece.manifests))

    def _of_piece(self, piece: _Piece, spec: PartitionSpec) -> list[Entries]:
        if not piece.is_whole:
            columns = piece.slab.part(piece.first, piece.last)
            return [entries_of(columns, piece.manifests, spec, self.metadata, self.columns)]
        return [self._of_slab(piece.slab, piece.manifests, spec)]

    def _of_slab(self, slab: Slab, manifests: tuple[ManifestFile, ...], spec: PartitionSpec) -> Entries:
        """The entries of a whole slab. Those of the last question are remembered."""
        question = (manifests, spec, spec.partition_type(self.metadata.any_field_by_id), self._metrics)
        for asked, entries in tuple(slab.remembered):
            if asked == question:
                return entries
        entries = entries_of(slab.columns, manifests, spec, self.metadata, self.columns)
        slab.remembered[:] = [(question, entries)]
        return entries

    def _decode(
        self,
        chunk: Sequence[ManifestFile],
        spec: PartitionSpec | None,
        keys: dict[str, bytes],
        folder: str | None,
    ) -> Iterator[Entries]:
        mark = "" if spec is None else spec_mark(spec)
        known = [keys[manifest.path] for manifest in chunk if manifest.path in keys]
        metrics = self.cache.metrics_of(known, mark, self._metrics)
        columns = replace(self.columns, metrics=metrics)
        for held in self.read(chunk):
            for batch in decode_columns(held, spec, columns):
                manifests = tuple(held[part.index][0] for part in batch.parts)
                of = spec or spec_of_manifest(manifests[0], batch.header)
                yield self._keep(batch, manifests, of, keys, metrics, folder)

    def _keep(
        self,
        batch: avro.AvroColumns,
        manifests: tuple[ManifestFile, ...],
        spec: PartitionSpec,
        keys: dict[str, bytes],
        metrics: frozenset[int],
        folder: str | None,
    ) -> Entries:
        """The entries of a decoded batch. The batch is kept if all of its manifests can be recognised again."""
        known = [keys[manifest.path] for manifest in manifests if manifest.path in keys]
        if len(known) < len(manifests):
            return entries_of(batch, manifests, spec, self.metadata, self.columns)
        slab = new_slab(batch, known, spec_mark(spec), metrics)
        entries = self._of_slab(slab, manifests, spec)  # a manifest that makes no sense is refused, and not kept
        self.cache.add(slab, folder)
        return entries


def _pieces(manifests: Sequence[ManifestFile], found: Sequence[Found | None]) -> list[_Piece | list[ManifestFile]]:
    """The manifests in order: those that are missing, and those that are side by side in one slab."""
    groups: list[tuple[Found | None, list[ManifestFile]]] = []
    for manifest, place in zip(manifests, found, strict=True):
        first, group = groups[-1] if groups else (None, [])
        if group and (place is first is None or (place and first and place.follows(first, len(group)))):
            group.append(manifest)
        else:
            groups.append((place, [manifest]))
    return [group if first is None else _Piece(first.slab, first.at, tuple(group)) for first, group in groups]
