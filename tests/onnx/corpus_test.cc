// Imports the models of the shared corpus, and checks their parameters and results. The test is
// skipped if the corpus is absent.

#include "ir/onnx/import.h"
#include "ir/verifier.h"
#include "kernels/fold.h"
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace isthmus {
namespace {

struct Model {
  const char *name;
  std::map<std::string, int64_t> dims;
  // The number of parameters beyond that of PyTorch's model; below 0 if there are fewer.
  int64_t more = 0;
};
void PrintTo(const Model &m, std::ostream *os) { *os << m.name; }

class Corpus : public testing::TestWithParam<Model> {
protected:
  std::string folder;
  void SetUp() override {
    const char *shared = std::getenv("ISTHMUS_SHARED");
    if (!shared)
      GTEST_SKIP() << "ISTHMUS_SHARED is not set";
    folder = std::string(shared) + "/onnx/";
  }
  nlohmann::json facts() {
    return nlohmann::json::parse(std::ifstream(folder + GetParam().name + ".json"));
  }
  // Unpacks the model and its external data, and returns the model's path.
  std::string unpacked() {
    std::string path;
    for (const char *end : {".onnx.data", ".onnx"}) {
      std::string from = folder + GetParam().name + end + ".xz";
      if (!std::ifstream(from))
        continue;
      path = testing::TempDir() + "/" + GetParam().name + end;
      EXPECT_EQ(std::system(("xz -dc '" + from + "' > '" + path + "'").c_str()), 0);
    }
    return path;
  }
  // A type of the facts, such as ["N", 3, 224, 224], with its symbols replaced by numbers.
  std::string typeText(const nlohmann::json &v) {
    Dims dims;
    for (const auto &d : v["shape"])
      dims.push_back(d.is_string() ? GetParam().dims.at(d.get<std::string>()) : d.get<int64_t>());
    return Type(v["dtype"] == "INT64" ? DType::I64 : DType::F32, dims).str();
  }
};

TEST_P(Corpus, Imports) {
  std::string path = unpacked();
  nlohmann::json facts = this->facts();
  OnnxOptions options;
  options.dims = GetParam().dims;
  options.fold = foldWithPlainKernels;
  auto g = importOnnx(path, options);
  ASSERT_TRUE(bool(g)) << llvm::toString(g.takeError());
  llvm::Error wrong = verify(*g);
  ASSERT_FALSE(bool(wrong)) << llvm::toString(std::move(wrong));

  int64_t parameters = 0;
  size_t inputs = 0;
  for (const Input &in : g->inputs()) {
    if (in.kind == InputKind::Param)
      parameters += g->type(in.value).elements();
    if (in.kind != InputKind::Input)
      continue;
    ASSERT_LT(inputs, facts["inputs"].size());
    EXPECT_EQ(g->valueName(in.value).str(), facts["inputs"][inputs]["name"]);
    EXPECT_EQ(g->type(in.value).str(), typeText(facts["inputs"][inputs]));
    ++inputs;
  }
  EXPECT_EQ(inputs, facts["inputs"].size());
  EXPECT_EQ(parameters, facts["parameters"].get<int64_t>() + GetParam().more);
  ASSERT_GE(g->outputs().size(), facts["outputs"].size());
  for (size_t i = 0; i < facts["outputs"].size(); ++i) {
    EXPECT_EQ(g->valueName(g->outputs()[i]).str(), facts["outputs"][i]["name"]);
    EXPECT_EQ(g->type(g->outputs()[i]).str(), typeText(facts["outputs"][i]));
  }
}

const std::map<std::string, int64_t> kBatch = {{"N", 2}}, kText = {{"N", 2}, {"T", 24}};

INSTANTIATE_TEST_SUITE_P(
    All, Corpus,
    testing::Values(
        Model{"resnet18", kBatch}, Model{"resnet18_fresh", kBatch}, Model{"resnet50", kBatch},
        // The exporter replaced batch norm's 2 x 26560 parameters by 26560 biases.
        Model{"resnet50_default", kBatch, -26560}, Model{"resnet50_train", kBatch},
        Model{"unet", kBatch}, Model{"unet_hw", {{"N", 2}, {"H", 48}, {"W", 64}}},
        Model{"mobilenetv2", kBatch}, Model{"gpt2", kText}, Model{"gpt2_op13", kText},
        Model{"gpt2_sdpa", kText}, Model{"gpt2_attention", kText}, Model{"unet_bilinear", kBatch},
        Model{"unet_bilinear_hw", {{"N", 2}, {"H", 48}, {"W", 64}}}, Model{"vit_tiny", kBatch},
        Model{"char_tcn", kText}, Model{"char_cells", kBatch}, Model{"smallcnn", kBatch},
        Model{"smallcnn_dynamo", kBatch}, Model{"dropnet_train", kBatch},
        Model{"dropnet_train_dynamo", kBatch}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace isthmus
