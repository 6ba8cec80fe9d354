"""Adds to pyproject.toml the one thing that it cannot say yet: the optional native pump."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "famulus.net._pump",
            ["src/famulus/net/_pump.c"],
            libraries=["dl"],  # dlopen lives there before glibc 2.34
            extra_compile_args=["-O2", "-std=c11", "-Wall", "-Wextra"],
            # Without a compiler the pure-Python twin serves.
            optional=True,
        )
    ]
)
