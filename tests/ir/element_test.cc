// Checks that single elements are written and read as numbers.
#include "ir/element.h"
#include <cmath>
#include <gtest/gtest.h>

namespace isthmus {
namespace {

// Writes `v` as the second element of a tensor at an odd address, and returns the number that is
// read back.
double kept(DType t, double v) {
  std::vector<char> bytes(size_t(2 * dtypeBytes(t)) + 1, 0x55);
  setElement(t, bytes.data() + 1, 1, v);
  for (int64_t i = 0; i <= dtypeBytes(t); ++i)
    EXPECT_EQ(bytes[size_t(i)], 0x55) << "before the element";
  Tensor tensor;
  tensor.type = Type(t, {2});
  tensor.data = bytes.data() + 1;
  return elementAsDouble(tensor, 1);
}

TEST(Element, FloatsRoundToNearest) {
  EXPECT_EQ(kept(DType::F64, 0.1), 0.1);
  EXPECT_EQ(kept(DType::F32, 0.1), 0.1f);
  EXPECT_EQ(kept(DType::F16, 0.1), 0x1.998p-4);
  EXPECT_EQ(kept(DType::BF16, 0.1), 0x1.9ap-4);
  EXPECT_EQ(kept(DType::F16, 1e6), HUGE_VAL);
}

TEST(Element, IntegersLoseWhatIsBehindThePoint) {
  EXPECT_EQ(kept(DType::I32, -3.9), -3);
  EXPECT_EQ(kept(DType::I64, 0x1p62), 0x1p62);
  EXPECT_EQ(kept(DType::U8, 255), 255);
}

TEST(Element, AnythingButZeroIsTrue) {
  EXPECT_EQ(kept(DType::Bool, 0.5), 1);
  EXPECT_EQ(kept(DType::Bool, 2), 1);
  EXPECT_EQ(kept(DType::Bool, 0), 0);
}

} // namespace
} // namespace isthmus
