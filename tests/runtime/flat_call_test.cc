// Every example call of the op table passes through the C interface unchanged.

#include "runtime/flat_call.h"

#include "ir/op_registry.h"
#include "runtime/kernel.h"
#include "tests/testing/example.h"
#include <gtest/gtest.h>

namespace isthmus {
namespace {

TEST(FlatCall, RoundTrip) {
  size_t calls = 0;
  for (const OpDef *op : OpRegistry::get().computedRows())
    for (const std::string &text : op->examples) {
      auto e = parseExample(text);
      FlatCall flat(e->call);
      auto back = fromFlat(flat.view());
      ASSERT_TRUE(bool(back)) << text;
      EXPECT_TRUE(identical((*back)->attrs, *e->call.attrs)) << text;
      EXPECT_EQ(callKey((*back)->call), callKey(e->call)) << text;
      EXPECT_EQ((*back)->call.op, e->call.op) << text;
      ++calls;
    }
  EXPECT_GT(calls, 150u);
}

TEST(FlatCall, NamesAnUnknownOp) {
  IsthmusCall call = {};
  call.op = "no_such_op";
  auto back = fromFlat(call);
  ASSERT_FALSE(bool(back));
  EXPECT_NE(llvm::toString(back.takeError()).find("no_such_op"), std::string::npos);
}

} // namespace
} // namespace isthmus
