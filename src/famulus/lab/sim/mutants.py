"""Deliberately broken copies of what the simulation watches. It is only worth something if it catches them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import BuiltinFunctionType, MethodDescriptorType, ModuleType
from typing import Any

from famulus.lab.sim.invariants import Invariant


@dataclass(frozen=True, slots=True)
class Mutant:
    """One method, or another attribute of a class or a module, replaced by a wrong one."""

    name: str
    what: str
    owner: type | ModuleType
    attribute: str
    wrong: Any
    #: What has to notice. If the mutant fails in another way, that says nothing about the invariants.
    caught_by: tuple[Invariant, ...]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        right = getattr(self.owner, self.attribute)
        if isinstance(right, MethodDescriptorType | BuiltinFunctionType):
            # It could be replaced, but its compiled callers would not notice.
            raise RuntimeError("a compiled core cannot be broken; FAMULUS_CORE=python runs its source")
        setattr(self.owner, self.attribute, self.wrong)
        try:
            yield
        finally:
            setattr(self.owner, self.attribute, right)


class Mutants(dict[str, Mutant]):
    """By their names."""

    def add(
        self, name: str, what: str, owner: type | ModuleType, attribute: str, wrong: Any, *caught_by: Invariant
    ) -> None:
        self[name] = Mutant(name, what, owner, attribute, wrong, caught_by)

    def breaks(
        self, owner: type | ModuleType, method: str, name: str, *caught_by: Invariant
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """The function below replaces that method. Its docstring is what people read."""

        def take(wrong: Callable[..., Any]) -> Callable[..., Any]:
            says = wrong.__doc__ or ""
            self.add(name, says[:1].lower() + says[1:].rstrip("."), owner, method, wrong, *caught_by)
            return wrong

        return take
