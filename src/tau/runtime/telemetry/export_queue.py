"""What waits to be sent: at most QUEUE_ITEMS spans or log records and QUEUE_BYTES. The newest is dropped, and counted.

The SDK's batches drop the oldest, and know no bytes: with content, two thousand spans would be 250 MB.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

QUEUE_ITEMS: Final = 2048
QUEUE_BYTES: Final = 6 * 1024 * 1024
BATCH_ITEMS: Final = 512
DELAY_MS: Final = 5000
ITEM_BYTES: Final = 1024  # of a span without attributes
ATTRIBUTE_BYTES: Final = 100  # of an attribute without its text

logger = logging.getLogger("opentelemetry.sdk.tau")


class QueueLimit:
    """Counts what waits. Sessions add in their thread, exporters release in theirs."""

    def __init__(self, items: int = QUEUE_ITEMS, size: int = QUEUE_BYTES) -> None:
        self._lock = threading.Lock()
        self._most = (items, size)
        self._items = self._bytes = 0
        self.dropped = 0

    def admits(self, size: int) -> bool:
        """True if one more of this size may wait; it is counted then. Else it is counted as dropped."""
        with self._lock:
            if self._items < self._most[0] and self._bytes + size <= self._most[1]:
                self._items += 1
                self._bytes += size
                return True
            self.dropped += 1
            first = self.dropped == 1
        if first:
            logger.warning("the queue is full, and what does not fit is dropped")
        return False

    def release(self, items: int, size: int) -> None:
        with self._lock:
            self._items -= items
            self._bytes -= size

    @property
    def waiting(self) -> int:
        return self._items


class BoundedSpanProcessor(SpanProcessor):
    """Batches of the SDK with a QueueLimit before them. `with_content`: spans may be long, and are measured."""

    def __init__(self, exporter: SpanExporter, limit: QueueLimit, *, with_content: bool) -> None:
        self._limit = limit
        self._size = _span_size if with_content else _usual_size
        self._batches: Any = BatchSpanProcessor(
            _ReleasingSpanExporter(exporter, limit, self._size),
            max_queue_size=QUEUE_ITEMS,
            schedule_delay_millis=DELAY_MS,
            max_export_batch_size=BATCH_ITEMS,
        )

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        pass

    def on_end(self, span: ReadableSpan) -> None:
        context = span.get_span_context()
        if context is not None and context.trace_flags.sampled and self._limit.admits(self._size(span)):
            self._batches.on_end(span)

    def shutdown(self) -> None:
        self._batches.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return bool(self._batches.force_flush(timeout_millis))


class _ReleasingSpanExporter(SpanExporter):
    def __init__(self, exporter: SpanExporter, limit: QueueLimit, size: Callable[[ReadableSpan], int]) -> None:
        self._exporter = exporter
        self._limit = limit
        self._size = size

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            return self._exporter.export(spans)
        finally:
            self._limit.release(len(spans), sum(map(self._size, spans)))

    def shutdown(self) -> None:
        self._exporter.shutdown()


class BoundedLogProcessor:
    """The same for log records; implements LogRecordProcessor."""

    def __init__(self, exporter: Any, limit: QueueLimit) -> None:
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

        self._limit = limit
        releasing: Any = _ReleasingLogExporter(exporter, limit)
        self._batches: Any = BatchLogRecordProcessor(releasing, max_queue_size=QUEUE_ITEMS)

    def on_emit(self, log_record: Any) -> None:
        if self._limit.admits(_log_size(log_record)):
            self._batches.on_emit(log_record)

    def shutdown(self) -> None:
        self._batches.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return bool(self._batches.force_flush(timeout_millis))


class _ReleasingLogExporter:
    def __init__(self, exporter: Any, limit: QueueLimit) -> None:
        self._exporter = exporter
        self._limit = limit

    def export(self, batch: Sequence[Any]) -> Any:
        try:
            return self._exporter.export(batch)
        finally:
            self._limit.release(len(batch), sum(map(_log_size, batch)))

    def shutdown(self) -> None:
        self._exporter.shutdown()


def _usual_size(span: ReadableSpan) -> int:
    return QUEUE_BYTES // QUEUE_ITEMS


def _span_size(span: ReadableSpan) -> int:
    events = sum(_attributes_size(event.attributes or {}) for event in span.events)
    return ITEM_BYTES + _attributes_size(span.attributes or {}) + events


def _log_size(record: Any) -> int:
    inner = record.log_record
    return ITEM_BYTES + len(str(inner.body or "")) + _attributes_size(inner.attributes or {})


def _attributes_size(attributes: Mapping[str, Any]) -> int:
    texts = sum(
        len(value) if isinstance(value, str) else len(str(value))
        for value in attributes.values()
        if isinstance(value, str | Mapping | Sequence)
    )
    return len(attributes) * ATTRIBUTE_BYTES + texts
