"""Libraries of the system whose headers lie in /usr/include."""

_TARGET = """
cc_library(
    name = {name},
    linkopts = {linkopts},
    visibility = ["//visibility:public"],
)
"""

def _system_library_impl(ctx):
    ctx.file("BUILD", "".join([
        _TARGET.format(name = repr(name), linkopts = repr(linkopts))
        for name, linkopts in ctx.attr.targets.items()
    ]))

system_library = repository_rule(
    implementation = _system_library_impl,
    attrs = {"targets": attr.string_list_dict(doc = "target name -> linkopts")},
)
