// Targets as text: the text of a target gives it back, and a wrong text is an error.

#include "ir/target_text.h"

#include "gtest/gtest.h"

namespace isthmus {
namespace {

std::string messageOf(llvm::StringRef text) {
  auto t = parseTarget(text);
  if (t)
    return "no error";
  return plainMessage(t.takeError());
}

TEST(TargetText, ComesBack) {
  Target t;
  t.name = "mine \"quoted\"";
  t.deviceKind = "npu";
  t.alignment = 512;
  t.fusesBias = true;
  t.flopsPerSecond = 1.0 / 3 * 1e13;
  t.bytesPerSecond = 2e12;
  t.launchSeconds = 0;
  t.linkBytesPerSecond = 25e9;
  t.contractionFlopsPerSecond[size_t(DType::BF16)] = 4e14;
  t.channelsLast = {DType::F16, DType::BF16};
  auto back = parseTarget(targetText(t));
  ASSERT_TRUE(bool(back)) << llvm::toString(back.takeError());
  EXPECT_EQ(targetText(*back), targetText(t));
  EXPECT_EQ(back->name, t.name);
  EXPECT_EQ(back->deviceKind, "npu");
  EXPECT_EQ(back->alignment, 512);
  EXPECT_TRUE(back->fusesBias);
  EXPECT_EQ(back->flopsPerSecond, t.flopsPerSecond); // to the bit
  EXPECT_EQ(back->contractionFlopsPerSecond, t.contractionFlopsPerSecond);
  EXPECT_EQ(back->channelsLast, t.channelsLast);
}

TEST(TargetText, WhatIsNotSaidHasItsDefault) {
  auto t = parseTarget(R"({"schema": "isthmus.target/1", "name": "plain"})");
  ASSERT_TRUE(bool(t)) << llvm::toString(t.takeError());
  Target plain;
  plain.name = "plain";
  EXPECT_EQ(targetText(*t), targetText(plain));
}

TEST(TargetText, WrongTexts) {
  auto with = [](const std::string &more) {
    return messageOf(R"({"schema": "isthmus.target/1", "name": "t", )" + more + "}");
  };
  EXPECT_NE(messageOf("{").find("JSON"), std::string::npos);
  EXPECT_NE(messageOf("{}").find("isthmus.target/1"), std::string::npos);
  EXPECT_NE(messageOf(R"({"schema": "isthmus.target/1"})").find("\"name\""), std::string::npos);
  EXPECT_NE(with(R"("flops_per_second": 0)").find("above 0"), std::string::npos);
  EXPECT_NE(with(R"("bytes_per_second": "1")").find("above 0"), std::string::npos);
  EXPECT_NE(with(R"("launch_seconds": -1)").find("from 0"), std::string::npos);
  EXPECT_NE(with(R"("alignment": 0)").find("\"alignment\": 0"), std::string::npos);
  EXPECT_NE(with(R"("alignment": 1.5)").find("1.5"), std::string::npos);
  EXPECT_NE(with(R"("fuses_bias": 1)").find("fuses_bias"), std::string::npos);
  EXPECT_NE(with(R"("channels_last": ["i32"])").find("f32, f64, bf16 and f16"), std::string::npos);
  EXPECT_NE(with(R"("contraction_flops_per_second": {"f32": -1})").find("above 0"),
            std::string::npos);
  EXPECT_NE(with(R"("colour": "red")").find("colour"), std::string::npos);
}

} // namespace
} // namespace isthmus
