"""Named tuples that compiled code passes as one address, not field by field.

Numba hands a tuple of forty arrays to a function as three hundred numbers, at every call: most of
the time to compile went into that. A named tuple marked here is laid out in memory once, when
Python calls compiled code, and read field by field from then on. Its fields never change while
compiled code runs, which tells the optimiser that they need not be read again after every store.

To lay out thirty arrays takes longer than what much compiled code does with them: what is passed
again and again is laid out beforehand (`costmodel.compiled.laid_out`).
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any, TypeVar

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    register_model,
    typeof_impl,
    unbox,
)

Tuple = TypeVar("Tuple", bound=type)


def by_reference(tuple_class: Tuple) -> Tuple:
    """Lets compiled code take a named tuple by its address; it cannot make one, nor change it.

    Args:
        tuple_class: the named tuple, of two fields or more: one alone is taken for an address.
    """

    @typeof_impl.register(tuple_class)
    def _(value: Any, context: Any) -> Reference:
        return Reference(tuple_class, tuple(typeof_impl(field, context) for field in value))

    return tuple_class


def read_by_reference(tuple_class: Tuple) -> Tuple:
    """As `by_reference`, of arrays that compiled code never writes to.

    Whether others may write to them (tables that are shared, or lie in Ray's store) would be one
    more type, and all that takes them compiled once more.
    """

    @typeof_impl.register(tuple_class)
    def _(value: Any, context: Any) -> Reference:
        fields = (typeof_impl(field, context) for field in value)
        return Reference(
            tuple_class,
            tuple(f.copy(readonly=False) if isinstance(f, types.Array) else f for f in fields),
        )

    return tuple_class


class Address(tuple[int]):
    """The address of a named tuple that lies in memory already.

    Every type has a class of its own. Numba looks types of named tuples up by the names of class
    and fields, and takes ten times as long for everything else.
    """

    _numba_type_: Reference
    _asdict = None
    _fields = ("a",)


@cache
def address_class(reference: Reference) -> type[Address]:
    """The class of addresses of named tuples of a type."""
    return type(reference.digest, (Address,), {"_numba_type_": reference})


@typeof_impl.register(Address)
def _typeof_address(value: Address, context: Any) -> Reference:
    return value._numba_type_


class Reference(types.Type):
    """The address of a named tuple of a class, with fields of these types."""

    def __init__(self, tuple_class: Any, fields: tuple[types.Type, ...]) -> None:
        self.fields = dict(zip(tuple_class._fields, fields, strict=True))
        listed = ", ".join(f"{name}: {field}" for name, field in self.fields.items())
        name = f"{tuple_class.__module__}.{tuple_class.__qualname__}"
        digest = hashlib.sha256(listed.encode()).hexdigest()[:16]
        self.digest = hashlib.sha256(f"{name} {digest}".encode()).hexdigest()[:16]
        super().__init__(f"{name}<{digest}>")


@register_model(Reference)
class _ReferenceModel(models.PrimitiveModel):
    def __init__(self, manager: Any, reference: Reference) -> None:
        self.members = [manager.lookup(field) for field in reference.fields.values()]
        layout = ir.LiteralStructType([member.get_data_type() for member in self.members])
        super().__init__(manager, reference, layout.as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference: Reference, name: str) -> types.Type | None:
        return reference.fields.get(name)


@unbox(Reference)
def _lay_out(reference: Reference, value: Any, c: Any) -> NativeValue:
    model = c.context.data_model_manager[reference]
    address = cgutils.alloca_once(c.builder, model.get_value_type().pointee)
    failed = cgutils.alloca_once_value(c.builder, cgutils.false_bit)
    used = cgutils.alloca_once_value(c.builder, address)
    natives = []
    size = c.pyapi.tuple_size(value)
    is_address = c.builder.icmp_signed("==", size, size.type(1))
    with c.builder.if_else(is_address) as (lies_there, is_tuple):
        with lies_there:
            there = c.pyapi.long_as_voidptr(c.pyapi.tuple_getitem(value, 0))
            c.builder.store(c.builder.bitcast(there, address.type), used)
        with is_tuple:
            for index, field in enumerate(reference.fields.values()):
                native = c.unbox(field, c.pyapi.tuple_getitem(value, index))
                with c.builder.if_then(native.is_error, likely=False):
                    c.builder.store(cgutils.true_bit, failed)
                stored = model.members[index].as_data(c.builder, native.value)
                c.builder.store(stored, cgutils.gep_inbounds(c.builder, address, 0, index))
                natives.append(native)
    # Nothing that is read through the address may be taken for read before all of it was written.
    barrier = ir.FunctionType(address.type, [address.type])
    there = c.builder.load(used)
    hidden = c.builder.asm(barrier, "", "=r,0,~{memory}", [there], side_effect=True)

    def cleanup() -> None:
        # Of what was given as an address nothing was stored: then nothing is let go.
        for index, (field, native) in enumerate(
            zip(reference.fields.values(), natives, strict=True)
        ):
            if native.cleanup is not None:
                native.cleanup()
            elif c.context.enable_nrt:
                place = cgutils.gep_inbounds(c.builder, address, 0, index)
                stored = model.members[index].from_data(c.builder, c.builder.load(place))
                c.context.nrt.decref(c.builder, field, stored)

    return NativeValue(hidden, is_error=c.builder.load(failed), cleanup=cleanup)


@lower_getattr_generic(Reference)
def _read(context: Any, builder: Any, reference: Reference, address: Any, name: str) -> Any:
    index = list(reference.fields).index(name)
    field = reference.fields[name]
    model = context.data_model_manager[field]
    place = cgutils.gep_inbounds(builder, address, 0, index)
    if isinstance(field, types.Array):
        value = _read_array(context, builder, field, place)
    else:
        value = model.from_data(builder, _load(builder, place))
    return impl_ret_borrowed(context, builder, field, value)


def _read_array(context: Any, builder: Any, array: types.Array, place: Any) -> Any:
    """Reads an array member by member: as a whole it could not be told to be constant."""
    model = context.data_model_manager[array]
    value = ir.Constant(model.get_value_type(), ir.Undefined)
    for name in ("meminfo", "parent", "nitems", "itemsize", "data", "shape", "strides"):
        position = model.get_field_position(name)
        member = cgutils.gep_inbounds(builder, place, 0, position)
        if name in ("shape", "strides"):
            for axis in range(array.ndim):
                number = _load(builder, cgutils.gep_inbounds(builder, member, 0, axis))
                value = builder.insert_value(value, number, [position, axis])
        elif name == "parent" or (name == "meminfo" and not context.enable_nrt):
            null = ir.Constant(member.type.pointee, None)
            value = builder.insert_value(value, null, position)
        else:
            value = builder.insert_value(value, _load(builder, member), position)
    return value


def _load(builder: Any, place: Any) -> Any:
    loaded = builder.load(place)
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded
