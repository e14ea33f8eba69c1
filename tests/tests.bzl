"""The usual forms of a test, so that a BUILD file says only what is particular to one."""

def gtest(name, srcs = None, deps = [], **kwargs):
    """A C++ test of one file, NAME.cc, with GoogleTest's main function."""
    native.cc_test(
        name = name,
        srcs = srcs or [name + ".cc"],
        deps = deps + ["@gtest//:gtest_main"],
        **kwargs
    )

def python_test(name, srcs = None, **kwargs):
    """A Python test of one file, NAME.py."""
    native.py_test(name = name, srcs = srcs or [name + ".py"], **kwargs)

def command_test(name, deps = [":cli_cases"], timeout = "long", **kwargs):
    """A Python test that runs the program from outside."""
    python_test(name = name, deps = deps, timeout = timeout, **kwargs)
