"""Arrays: elements after their count, plain or compact."""

from __future__ import annotations

from struct import calcsize
from typing import Any

from construct import Construct

from kafka_wire import errors
from kafka_wire.layout.lengths import COMPACT, LONG, Length
from kafka_wire.layout.numbers import Number
from kafka_wire.layout.source import DecodeSource, EncodeSource
from kafka_wire.layout.wire import Place, Wire, rest, wire_of
from kafka_wire.schema import Type


class Array(Wire):
    """Elements after their count; None if the count is that of null and null is allowed.

    Every element takes at least one byte: a count above the number of remaining bytes is invalid and must not be
    allocated.
    """

    kind = "array"

    def __init__(self, length: Length, element: Wire, nullable: bool, batched: bool = False) -> None:
        super().__init__()
        self.batched = batched
        self.length = length
        self.element = element
        self.nullable = nullable
        self.annotation = f"list[{element.annotation}]"

    @classmethod
    def declared(cls, type_: Type, place: Place) -> Construct:
        assert type_.element is not None
        length = COMPACT if place.flexible else LONG
        return cls(length, wire_of(type_.element, place.within()), place.nullable, type_.batched)

    def description(self) -> str:
        return f"Array of {self.element.description()}, {self.length.description()}" + (
            ", nullable" if self.nullable else ""
        )

    def parts(self) -> list[tuple[str, Wire]]:
        return self.element.parts()

    def _parse(self, stream: Any, context: Any, path: str) -> list[Any] | None:
        count = self.length._parsereport(stream, context, path)
        if count == -1 and self.nullable:
            return None
        if count < 0 or count > rest(stream):
            raise errors.LengthError(f"{count} elements at {path}")
        return [self.element._parsereport(stream, context, f"{path}[{index}]") for index in range(count)]

    def _build(self, obj: list[Any] | None, stream: Any, context: Any, path: str) -> Any:
        if obj is None:
            if not self.nullable:
                raise errors.EncodeError(f"{path} must not be null")
            self.length._build(-1, stream, context, path)
        else:
            self.length._build(len(obj), stream, context, path)
            for index, item in enumerate(obj):
                self.element._build(item, stream, context, f"{path}[{index}]")
        return obj

    def emit_decode(self, out: DecodeSource, target: str, name: str) -> None:
        count = out.fresh(f"{name}_count")
        self.length.emit_decode(out, count, name)
        with self.length.present(out, count, target, name, nullable=self.nullable):
            if self.length is COMPACT:
                out.emit(f"{count} -= 1")
            out.refuse(f"{count} > end - pos", "LengthError", f'f"{{{count}}} elements of {name}"')
            if isinstance(self.element, Number):
                self._emit_numbers(out, target, count, self.element.format)
            else:
                items, item = out.fresh(name), out.fresh("item")
                out.emit(f"{items}: {self.annotation} = []", f"{target} = {items}")
                with out.block(f"for _ in range({count}):"):
                    self.element.emit_decode(out, item, name)
                    out.emit(f"{items}.append({item})")

    def _emit_numbers(self, out: DecodeSource, target: str, count: str, format_: str) -> None:
        """Unpack all numbers at once. `unpack_from` raises if they would reach beyond the buffer."""
        table = out.needs.take("kafka_wire.numbers", "Unpackers")
        unpackers = out.needs.constant(f"unpack_many_{format_.replace('?', 't')}", f'{table}("{format_}")')
        size = calcsize(">" + format_)
        out.emit(
            f"{target} = [*{unpackers}[{count}](buf, pos)]", f"pos += {count}" + (f" * {size}" if size > 1 else "")
        )

    def emit_encode(self, out: EncodeSource, value: str) -> None:
        items = out.read(value)
        if not self.nullable or items in out.present:
            self._emit_array(out, items)
            return
        with out.block(f"if {items} is None:"):
            self.length.put_null(out)
        with out.block("else:"):
            self._emit_array(out, items)

    def _emit_array(self, out: EncodeSource, items: str) -> None:
        if not self.batched:
            self._emit_count(out, items)
            self._emit_items(out, items)
            return
        at, begin = out.fresh(f"{items}_at"), out.fresh(f"{items}_begin")
        out.emit(f"{at} = len({out.sink})")
        self._emit_count(out, items)
        out.emit(f"{begin} = len({out.sink})")
        self._emit_items(out, items)
        with out.block(f"if isinstance({out.sink}, {out.needs.take('kafka_wire.message_parts', 'Noted')}):"):
            out.emit(f"{out.sink}.arrays.append((len({items}), {at}, {begin}, len({out.sink})))")

    def _emit_count(self, out: EncodeSource, items: str) -> None:
        if self.length is COMPACT:
            count = out.fresh(f"{items}_count")
            out.put(f"{count} = len({items}) + 1")
            self.length.emit_encode(out, count)
        else:
            self.length.emit_encode(out, f"len({items})")

    def _emit_items(self, out: EncodeSource, items: str) -> None:
        if isinstance(self.element, Number):
            format_ = self.element.format
            table = out.needs.take("kafka_wire.numbers", "Packers")
            packers = out.needs.constant(f"pack_many_{format_.replace('?', 't')}", f'{table}("{format_}")')
            out.emit(f"{out.sink} += {packers}[len({items})](*{items})")
            return
        item = out.fresh("item")
        with out.block(f"for {item} in {items}:"):
            self.element.emit_encode_element(out, item)
