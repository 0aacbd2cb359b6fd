"""Builds the compiled parts; where there is no compiler the pure ones beside them, or pyarrow, are used."""

import sysconfig

from setuptools import Extension, setup

# The stable ABI does not exist on free-threaded builds, which compile for their own version instead.
STABLE = not sysconfig.get_config_var("Py_GIL_DISABLED")

setup(
    ext_modules=[
        Extension(
            "esker.avro._shred",
            sources=["src/esker/avro/_shred.c"],
            depends=[f"src/esker/avro/_shred_{part}.h" for part in ("object", "blocks", "inflate")],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if STABLE else [],
            py_limited_api=STABLE,
            optional=True,
        ),
        Extension(
            "esker.iceberg.metadata._split",
            sources=["src/esker/iceberg/metadata/_split.c"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if STABLE else [],
            py_limited_api=STABLE,
            optional=True,
        ),
        Extension(
            "esker.arrow.flat._parquet",
            sources=["src/esker/arrow/flat/_parquet.c"],
            depends=[f"src/esker/arrow/flat/_parquet_{part}.h" for part in ("thrift", "footer", "values", "snappy")],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if STABLE else [],
            py_limited_api=STABLE,
            optional=True,
        ),
        Extension(
            "esker.otlp._walk",
            sources=["src/esker/otlp/_walk.c"],
            depends=[f"src/esker/otlp/_walk_{part}.h" for part in ("values", "columns", "json", "request", "object")],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if STABLE else [],
            py_limited_api=STABLE,
            optional=True,
        ),
        Extension(
            "esker.otlp._variants",
            sources=["src/esker/otlp/_variants.c"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if STABLE else [],
            py_limited_api=STABLE,
            optional=True,
        ),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if STABLE else {},
)
