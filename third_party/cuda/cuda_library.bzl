"""cuda_library: .cu files through nvcc, for use in `deps` of C++ targets.

The output group `resources` has what the assembler says of each kernel: registers, spills, shared memory.
"""

load("@cuda//:info.bzl", "GENERATION", "HOME")

# GPUs from 7.5 to 10.0; 8.6, 8.9 and 10.3 run the machine code of 8.0 and 10.0.
GENERATIONS = ["75", "80", "90", "100"]

def _code_for(generation):
    return "-gencode=arch=compute_%s,code=sm_%s" % (generation, generation)

# Machine code for each, and PTX for what comes after.
_ALL = [_code_for(g) for g in GENERATIONS] + [
    "-gencode=arch=compute_%s,code=compute_%s" % (GENERATIONS[-1], GENERATIONS[-1]),
]

# PTX, which the driver compiles when a kernel is first run, for minutes in all; and machine code for one generation made
# of it, which takes little more to build and shows what the assembler makes of our kernels.
_PORTABLE = ["-gencode=arch=compute_75,code=[compute_75,sm_90]"]

# What is built where nothing is asked for: machine code for this machine's GPU, where there is one.
DEFAULT = GENERATION or "portable"

ARCHITECTURES = dict(
    {g: [_code_for(g)] for g in GENERATIONS + ([GENERATION] if GENERATION else [])},
    all = _ALL,
    portable = _PORTABLE,
)

_FLAGS = [
    "-std=c++20",
    "-O3",
    "--fmad=false",  # a product and a sum round twice, as on the CPU
    "--extended-lambda",
    "--expt-relaxed-constexpr",
    "-Xcompiler=-fPIC",
    "-Xcompiler=-UNDEBUG",
    "-Xcompiler=-fvisibility=hidden",
    # Functions that only some instances use; signs of unsigned integers, in functions of any number.
    "--diag-suppress=177,186",
    "-Xptxas=-v",
]

# What the assembler says goes to the first argument; all else that nvcc says, to people.
_COMPILE = """
said=$1; shift
"$@" 2>"$said"; status=$?
grep -v -e '^ptxas info' -e '^ *[0-9]* bytes stack frame' "$said" >&2
exit $status
"""

def _cuda_library_impl(ctx):
    cc = cc_common.merge_cc_infos(cc_infos = [d[CcInfo] for d in ctx.attr.deps])
    context = cc.compilation_context
    includes = []
    for path in context.quote_includes.to_list() + context.includes.to_list():
        includes += ["-I", path]
    for path in context.system_includes.to_list():
        includes += ["-isystem", path]
    objects = []
    resources = []
    for src in ctx.files.srcs:
        obj = ctx.actions.declare_file(ctx.label.name + "/" + src.basename + ".o")
        said = ctx.actions.declare_file(ctx.label.name + "/" + src.basename + ".resources")
        objects.append(obj)
        resources.append(said)
        ctx.actions.run_shell(
            command = _COMPILE,
            arguments = [said.path, HOME + "/bin/nvcc"] + _FLAGS + ARCHITECTURES[ctx.attr.architectures] + includes +
                        ["-I", ".", "-c", src.path, "-o", obj.path],
            inputs = depset([src] + ctx.files.hdrs, transitive = [context.headers]),
            outputs = [obj, said],
            mnemonic = "Nvcc",
            progress_message = "Compiling %s with nvcc" % src.short_path,
            use_default_shell_env = True,
        )
    toolchain = ctx.attr._cc_toolchain[cc_common.CcToolchainInfo]
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    compiled = cc_common.create_compilation_outputs(
        objects = depset(objects),
        pic_objects = depset(objects),
    )
    linking, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        feature_configuration = features,
        cc_toolchain = toolchain,
        compilation_outputs = compiled,
        linking_contexts = [cc.linking_context],
        disallow_dynamic_library = True,
        alwayslink = True,
    )
    return [
        CcInfo(compilation_context = context, linking_context = linking),
        OutputGroupInfo(resources = depset(resources)),
    ]

cuda_library = rule(
    implementation = _cuda_library_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "hdrs": attr.label_list(allow_files = True),
        "deps": attr.label_list(providers = [CcInfo]),
        "architectures": attr.string(default = "all", values = ARCHITECTURES.keys()),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
