"""Compiles the functions behind an entry once, together, and not each of them by itself.

Numba optimises a function and makes machine code of it, then does so again within each of its
callers, and within theirs. Here a *part*, a function that only compiled code calls, ends as
intermediate code. The *entry* that Python calls takes in all parts that it reaches, and is then
optimised and turned into machine code, once. This rests on members of Numba that are not public;
`tests/costmodel/compiled/test_compiled.py` names them when they change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher


class EntryLibrary(JITCodeLibrary):
    """The code of an entry and of all parts that it reaches."""

    def add_llvm_module(self, module: Any) -> None:
        """Takes in what was lowered, to be optimised when all is there."""
        module.data_layout = self._codegen._data_layout
        self._final_module.link_in(module)

    def finalize(self) -> None:
        """Takes in the parts, and makes machine code."""
        self._raise_if_finalized()
        own = {f.name for f in self._final_module.functions if not f.is_declaration}
        for library in _reached(self):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        for function in self._final_module.functions:
            if not function.is_declaration and function.name not in own:
                function.linkage = llvm.Linkage.internal
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()

    def _optimize_final_module(self) -> None:
        # Loops here run a handful of times: unrolling, vectors and the levels above the first took
        # half of the time to optimise, and gained nothing.
        tuning = llvm.create_pipeline_tuning_options(speed_level=1)
        tuning.loop_unrolling = tuning.loop_vectorization = tuning.slp_vectorization = False
        builder = llvm.create_pass_builder(self._codegen._tm, tuning)
        passes = builder.getModulePassManager()
        passes.add_refprune_pass()
        passes.run(self._final_module, builder)


class PartLibrary(EntryLibrary):
    """The intermediate code of a part."""

    def finalize(self) -> None:
        """Leaves the code as it is."""
        self._raise_if_finalized()
        self._finalized = True


def _reached(library: Any) -> Iterator[Any]:
    """The libraries that one calls, and those that parts among them call."""
    waiting, seen = list(library._linking_libraries), set()
    while waiting:
        other = waiting.pop(0)
        if other not in seen:
            seen.add(other)
            yield other
            if isinstance(other, PartLibrary):
                waiting += other._linking_libraries


class EntryCompiler(Compiler):
    """Compiles an entry."""

    _library_class: type[JITCodeLibrary] = EntryLibrary

    def define_pipelines(self) -> Any:
        """The usual ones, into another library."""
        codegen = self.state.targetctx.codegen()
        self.state.library = self._library_class(codegen, self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return super().define_pipelines()


class PartCompiler(EntryCompiler):
    """Compiles a part."""

    _library_class = PartLibrary

    def define_pipelines(self) -> Any:
        """The usual ones, without the last step."""
        self.state.flags.no_compile = True
        return super().define_pipelines()

    def compile_extra(self, function: Any) -> Any:
        """Compiles the part, and lets other functions call it under a name of its own."""
        result = super().compile_extra(function)._replace(entry_point=object())
        self.state.targetctx.insert_user_function(
            result.entry_point, result.fndesc, [result.library]
        )
        return result


class Part(CPUDispatcher):
    """A function that compiled code alone calls."""

    def add_overload(self, result: Any) -> None:
        """Keeps what was compiled for compiled code, but not for calls from Python."""
        self.overloads[tuple(result.signature.args)] = result

    def __call__(self, *args: Any, **keywords: Any) -> NoReturn:
        """Refuses: there is no machine code to run."""
        raise TypeError(f"{self.py_func.__name__} is a part of compiled code: only that calls it.")
