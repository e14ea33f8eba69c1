"""The CUDA toolkit of this machine, or an empty stand-in where there is none.

Looked for at $CUDA_HOME, where `nvcc` is on the PATH, and at /usr/local/cuda. The repository has
`info.bzl` (IS_FOUND, HOME, VERSION, and GENERATION: of this machine's GPU as nvcc names it, "90", or "" where there is
none) and the library :cudart, with the headers of cuBLASLt and cuDNN.
"""

load(":generation.bzl", "generation_of")

_LIBRARY = """
cc_library(
    name = "cudart",
    hdrs = {hdrs},
    includes = {includes},
    linkopts = {linkopts},
    visibility = ["//visibility:public"],
)
"""

def _home(ctx):
    candidates = [ctx.os.environ.get("CUDA_HOME", "")]
    nvcc = ctx.which("nvcc")
    if nvcc:
        candidates.append(str(nvcc.realpath.dirname.dirname))
    candidates.append("/usr/local/cuda")
    for home in candidates:
        if home and ctx.path(home + "/bin/nvcc").exists and ctx.path(home + "/include/cudnn.h").exists:
            return home
    return None

def _version(ctx, home):
    said = ctx.execute([home + "/bin/nvcc", "--version"]).stdout
    return said.split("release ")[1].split(",")[0] if "release " in said else "of unknown version"

def _generation(ctx, home):
    driver = ctx.which("nvidia-smi")
    if not driver:
        return ""
    return generation_of(
        ctx.execute([driver, "--query-gpu=compute_cap", "--format=csv,noheader"]).stdout,
        ctx.execute([home + "/bin/nvcc", "--list-gpu-code"]).stdout,
    )

def _cuda_toolkit_impl(ctx):
    home = _home(ctx)
    ctx.file("info.bzl", "IS_FOUND = %s\nHOME = %r\nVERSION = %r\nGENERATION = %r\n" % (
        bool(home),
        home or "",
        _version(ctx, home) if home else "",
        _generation(ctx, home) if home else "",
    ))
    if home:
        ctx.symlink(home + "/include", "include")
    lib = (home or "") + "/lib64"
    # cuBLASLt and cuDNN are loaded where they are used (kernels/cuda/nvidia.h): their headers are enough.
    ctx.file("BUILD", _LIBRARY.format(
        hdrs = 'glob(["include/*.h", "include/*.hpp", "include/crt/*", "include/cooperative_groups/**"])' if home else "[]",
        includes = '["include"]' if home else "[]",
        linkopts = repr([lib + "/libcudart_static.a", "-lrt", "-ldl", "-lpthread"] if home else []),
    ))

cuda_toolkit = repository_rule(
    implementation = _cuda_toolkit_impl,
    environ = ["CUDA_HOME", "PATH"],
    local = True,
)
