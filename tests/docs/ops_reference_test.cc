// docs/ops.md must agree with the op table.

#include "tools/ops_reference.h"

#include "ir/op_registry.h"
#include "llvm/Support/MemoryBuffer.h"
#include <gtest/gtest.h>

using namespace isthmus;

namespace {

TEST(OpsReference, IsCurrent) {
  auto page = llvm::MemoryBuffer::getFile("docs/ops.md");
  ASSERT_TRUE(bool(page)) << "no docs/ops.md; write it with: bazel run //tools:gen_ops_doc";
  EXPECT_TRUE((*page)->getBuffer() == opsReference())
      << "docs/ops.md is out of date; write it with: bazel run //tools:gen_ops_doc";
}

TEST(OpsReference, HasEveryRowOnce) {
  std::string page = opsReference();
  for (const OpDef *op : OpRegistry::get().rows()) {
    std::string heading = "\n### " + op->name + "\n";
    size_t at = page.find(heading);
    ASSERT_NE(at, std::string::npos) << op->name;
    EXPECT_EQ(page.find(heading, at + 1), std::string::npos) << op->name;
    std::string section = page.substr(at, page.find("\n##", at + 2) - at);
    EXPECT_NE(section.find(op->doc), std::string::npos) << op->name;
    for (const AttrDef &a : op->attrs)
      EXPECT_NE(section.find("| `" + a.name + "` | "), std::string::npos)
          << op->name << " " << a.name;
    for (const std::string &example : op->examples)
      EXPECT_NE(section.find("\n" + example + " : "), std::string::npos) << example;
  }
}

// Checks known facts of some rows on the page.
TEST(OpsReference, TellsGradientsAndInverses) {
  std::string page = opsReference();
  auto section = [&](const std::string &name) {
    size_t at = page.find("\n### " + name + "\n");
    return page.substr(at, page.find("\n##", at + 2) - at);
  };
  auto has = [&](const std::string &name, const std::string &what) {
    EXPECT_NE(section(name).find(what), std::string::npos) << section(name);
  };
  has("tanh", "- Gradient: by `tanh_grad`; differentiable again.");
  has("tanh_grad", "- Gradient: through its expansion, by ");
  has("less", "- Gradient: zero: ");
  has("stop_gradient", "- Gradient: none flows.");
  has("identity", "- Gradient: the flowing gradient itself");
  has("matmul", "a contraction");
  has("add", "- Inverse: `a`, `b`, by `sub`; rounded, f32 to 1e-06 of 1 + |x| for operands in "
             "[-2.0, 2.0].");
  has("neg", "- Inverse: `x`, by `neg`; bit for bit.");
  has("mul", "; only where the graph promises that it exists.");
  has("add", "- In place: `y` over `a`, `y` over `b`.");
  has("cast", "| `type` | string | must be given | ");
  EXPECT_EQ(section("relu").find("- Inverse"), std::string::npos);
}

} // namespace
