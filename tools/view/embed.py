"""Prints a C++ file with constants that hold the contents of files: NAME=FILE,FILE,... for each constant."""

import sys


def literal(text):
    """Returns C++ raw strings that together spell the text. A compiler need not take strings over 65,535 bytes."""
    lines, part, parts = text.splitlines(keepends=True), "", []
    for line in lines:
        if len((part + line).encode()) > 16000:
            parts.append(part)
            part = ""
        part += line
    return "\n".join(f'    R"---({p})---"' for p in [*parts, part])


print('#include "tools/view/page_parts.h"\n\nnamespace isthmus {\n')
for argument in sys.argv[1:]:
    name, files = argument.split("=", 1)
    text = "".join(open(f, encoding="utf-8").read() for f in files.split(","))
    assert ')---"' not in text, f"{files}: holds the end of a raw string"
    print(f"const char *const {name} =\n{literal(text)};\n")
print("} // namespace isthmus")
