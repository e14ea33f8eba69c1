#include "runtime/host_memory.h"

#include "ir/system_limits.h"
#include "gtest/gtest.h"

namespace isthmus {
namespace {

TEST(HostMemory, IsNotPromisedTwice) {
  const int64_t most = availableMemory().bytes / 10 * 6;
  auto first = allocateHostMemory(most, "cpu:0");
  ASSERT_TRUE(bool(first)) << llvm::toString(first.takeError());
  auto second = allocateHostMemory(most, "cpu:0");
  ASSERT_FALSE(bool(second)) << "nothing of the first was written, and both cannot be";
  llvm::handleAllErrors(second.takeError(),
                        [](const DiagError &e) { EXPECT_EQ(e.kind, ErrorKind::OutOfMemory); });
  releaseHostMemory(*first);
  second = allocateHostMemory(most, "cpu:0");
  ASSERT_TRUE(bool(second)) << llvm::toString(second.takeError());
  releaseHostMemory(*second);
}

TEST(HostMemory, OfNoBytesHasAnAddress) {
  auto none = allocateHostMemory(0, "cpu:0");
  ASSERT_TRUE(bool(none)) << llvm::toString(none.takeError());
  EXPECT_NE(*none, nullptr);
  releaseHostMemory(*none);
  releaseHostMemory(nullptr);
}

} // namespace
} // namespace isthmus
