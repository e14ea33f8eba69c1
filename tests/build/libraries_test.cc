// Makes a small use of each external library.

#include <CLI/CLI.hpp>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/biconnected_components.hpp>
#include <dnnl.hpp>
#include <gtest/gtest.h>
#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/Allocator.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>
#include <nlohmann/json.hpp>

#include "onnx/onnx.pb.h"

#include <cassert>
#include <iterator>
#include <string>
#include <vector>

namespace {

llvm::Expected<int> half(int n) {
  if (n % 2 != 0)
    return llvm::createStringError(llvm::inconvertibleErrorCode(), "'%d' is odd", n);
  return n / 2;
}

TEST(Libraries, LlvmError) {
  llvm::Expected<int> ok = half(6);
  ASSERT_TRUE(static_cast<bool>(ok));
  EXPECT_EQ(*ok, 3);
  llvm::Expected<int> bad = half(7);
  ASSERT_FALSE(static_cast<bool>(bad));
  EXPECT_EQ(llvm::toString(bad.takeError()), "'7' is odd");
}

TEST(Libraries, LlvmAdt) {
  llvm::MapVector<llvm::StringRef, int> map;
  map["b"] = 1;
  map["a"] = 2;
  llvm::SmallVector<llvm::StringRef, 2> names;
  for (auto &[name, value] : map)
    names.push_back(name);
  EXPECT_EQ(llvm::join(names, ","), "b,a");

  llvm::BumpPtrAllocator allocator;
  int *p = allocator.Allocate<int>(100);
  for (int i = 0; i < 100; ++i)
    p[i] = i;
  EXPECT_EQ(p[99], 99);
}

TEST(Libraries, LlvmSourceMgr) {
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer("ab cd\n", "x.isth"), llvm::SMLoc());
  const char *start = sources.getMemoryBuffer(1)->getBufferStart();
  std::string text;
  llvm::raw_string_ostream os(text);
  sources.PrintMessage(os, llvm::SMLoc::getFromPointer(start + 3), llvm::SourceMgr::DK_Error, "no");
  EXPECT_EQ(os.str(), "x.isth:1:4: error: no\nab cd\n   ^\n");
}

TEST(Libraries, BoostArticulationPoints) {
  // 0 - 1 - 2: vertex 1 separates the others.
  boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS> graph(3);
  boost::add_edge(0, 1, graph);
  boost::add_edge(1, 2, graph);
  std::vector<size_t> points;
  boost::articulation_points(graph, std::back_inserter(points));
  EXPECT_EQ(points, std::vector<size_t>{1});
}

TEST(Libraries, Dnnl) {
  EXPECT_GE(dnnl_version()->major, 2);
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  EXPECT_EQ(engine.get_kind(), dnnl::engine::kind::cpu);
}

TEST(Libraries, Onnx) {
  onnx::ModelProto model;
  model.set_ir_version(10);
  // Exporters write names into the metadata of graphs and nodes, which old versions of onnx.proto
  // lack.
  onnx::StringStringEntryProto *entry = model.mutable_graph()->add_node()->add_metadata_props();
  entry->set_key("pkg.torch.onnx.name_scopes");
  std::string bytes = model.SerializeAsString();
  onnx::ModelProto back;
  ASSERT_TRUE(back.ParseFromString(bytes));
  EXPECT_EQ(back.graph().node(0).metadata_props(0).key(), "pkg.torch.onnx.name_scopes");
}

TEST(Libraries, Json) {
  nlohmann::ordered_json json = {{"nodes", 3}, {"clones", nullptr}};
  EXPECT_EQ(json.dump(), R"({"nodes":3,"clones":null})");
}

TEST(Libraries, Cli11) {
  CLI::App app;
  std::string budget;
  app.add_option("--budget", budget);
  app.parse("--budget=50%", /*program_name_included=*/false);
  EXPECT_EQ(budget, "50%");
}

// The flags of .bazelrc that other code relies on.
TEST(Flags, AssertsAreKept) { EXPECT_DEATH(assert(false && "kept"), "kept"); }

TEST(Flags, Cxx20) { EXPECT_GE(__cplusplus, 202002L); }

} // namespace
