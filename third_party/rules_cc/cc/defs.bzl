"""Stands in for rules_cc: its names, bound to the rules that are built into Bazel 4.

Bazel's own files load @rules_cc. The packaged rules_cc is too new for the packaged Bazel.
"""

cc_library = native.cc_library
cc_binary = native.cc_binary
cc_test = native.cc_test
cc_import = native.cc_import
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
cc_proto_library = native.cc_proto_library
objc_library = native.objc_library
objc_import = native.objc_import
fdo_profile = native.fdo_profile
fdo_prefetch_hints = native.fdo_prefetch_hints

# Asked for by name only, never called.
cc_flags_supplier = None
compiler_flag = None
