// Of the program, the library and the packages made of them.
#pragma once

namespace isthmus {
constexpr const char *kVersion = "0.1.0";
}
