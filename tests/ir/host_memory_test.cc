#include "ir/host_memory.h"

#include "ir/system_limits.h"
#include "gtest/gtest.h"
#include <algorithm>

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

TEST(HostMemory, IsZeroed) {
  for (size_t size : {size_t(0), size_t(100), size_t(17) << 20}) {
    const std::shared_ptr<char> bytes = zeroedHostMemory(size);
    ASSERT_NE(bytes, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.get()) % 64, 0u);
    EXPECT_EQ(std::count(bytes.get(), bytes.get() + size, 0), int64_t(size));
  }
}

TEST(HostMemory, OfATensorIsNotWrittenWhereTooLittleIsLeft) {
  auto first = allocateHostMemory(availableMemory().bytes / 10 * 6, "cpu:0");
  ASSERT_TRUE(bool(first)) << llvm::toString(first.takeError());
  try {
    zeroedHostMemory(size_t(availableMemory().bytes / 10 * 6));
    ADD_FAILURE() << "the first is still to be written";
  } catch (const std::bad_alloc &e) {
    EXPECT_TRUE(llvm::StringRef(e.what()).startswith("out of memory: ")) << e.what();
    EXPECT_TRUE(llvm::StringRef(e.what()).contains(" MiB available")) << e.what();
  }
  releaseHostMemory(*first);
}

} // namespace
} // namespace isthmus
