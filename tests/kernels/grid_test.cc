// Compares our GPU kernels, compiled for the CPU, with the plain ones: every example of every row,
// in every float type, and in place if the row allows it.

#include "ir/op_registry.h"
#include "tests/kernels/compare.h"

namespace isthmus::testing {
namespace {

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const OpDef *op : OpRegistry::get().computedRows())
    if (!op->is(kView))
      names.push_back(op->name);
  return names;
}

class GridKernels : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Rows, GridKernels, ::testing::ValuesIn(names()),
                         [](const auto &info) { return info.param; });

TEST_P(GridKernels, GiveWhatThePlainOnesGive) {
  ASSERT_FALSE(gridKernels().of(GetParam()).empty()) << "no kernel";
  for (const std::string &text : OpRegistry::get().at(GetParam()).examples)
    expectLikePlain(text);
}

} // namespace
} // namespace isthmus::testing
