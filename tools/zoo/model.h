// The tools with which the models of the zoo are written.
#pragma once

#include "ir/builder.h"

namespace isthmus::zoo {

// The options of a model, parsed, with defaults. Only the options that the model lists are set.
struct Sizes {
  int64_t depth = 0, width = 0, batch = 0, classes = 0, heads = 0, tokens = 0, vocab = 0,
          latent = 0, levels = 0;
  Dims shape; // of one example, without the batch
  double dropout = 0;
  bool fused = false;    // attention is one op
  bool additive = false; // couplings only add
  bool depthGiven = false, widthGiven = false, classesGiven = false,
       shapeGiven = false; // rather than by default

  Dims batched(llvm::ArrayRef<int64_t> rest) const; // with the batch in front
};

// An error (exit 2) if the product is over 2^44 elements, more than any machine holds. Models call
// it with the sizes of their largest tensors before they build any.
llvm::Error checkElements(llvm::StringRef what, std::initializer_list<int64_t> sizes);

// An error (exit 2) unless height and width can be halved `times` times.
llvm::Error checkHalvings(llvm::StringRef model, const Sizes &s, int64_t times);

// The product, or INT64_MAX on overflow.
int64_t productOf(llvm::ArrayRef<int64_t> sizes);

// Builds a forward graph layer by layer. Values have the names of their layers, `layer1.0.conv1`,
// and parameters begin with them: `layer1.0.conv1.weight`.
class Model {
  Graph g_; // before its builder

public:
  explicit Model(llvm::StringRef name) : b(g_) { g_.name = name.str(); }
  Model(const Model &) = delete;
  Model &operator=(const Model &) = delete;

  Builder b;

  Dims dims(ValueId v) const { return g_.type(v).dims; }
  int64_t dim(ValueId v, size_t axis) const { return g_.type(v).dims[axis]; }

  ValueId input(llvm::StringRef name, DType type, llvm::ArrayRef<int64_t> dims);
  ValueId normalParam(const std::string &name, llvm::ArrayRef<int64_t> dims, double std);
  // Weights whose sums have `fan` terms; `gain` is that of `linear`.
  ValueId weightParam(const std::string &name, llvm::ArrayRef<int64_t> dims, double gain,
                      double fan);
  ValueId fillInput(InputKind kind, const std::string &name, llvm::ArrayRef<int64_t> dims,
                    double value);

  ValueId op(llvm::StringRef op, llvm::ArrayRef<ValueId> operands, const std::string &name,
             Attrs attrs = {}) {
    return b.create(op, operands, std::move(attrs), name);
  }
  ValueId relu(ValueId x, const std::string &name) { return op("relu", {x}, name); }
  // x W + b over the last axis of [rows, features]; He's initialization, with `gain` 2 before a
  // relu and 1 elsewhere; with 0 the weights are zeros.
  ValueId linear(ValueId x, int64_t features, const std::string &name, double gain = 2);

  struct Conv {
    int64_t kernel = 3, stride = 1, groups = 1;
    bool bias = true;
    double gain = 2; // as of `linear`
  };
  // Padded so that stride 1 keeps the size; square kernels on [N, C, H, W].
  ValueId conv(ValueId x, int64_t channels, const std::string &name, Conv options);
  // Turns 2x2 pixels into channels of one pixel: [N, C, H, W] to [N, 4 C, H / 2, W / 2].
  ValueId squeeze(ValueId x, const std::string &name);
  // Splits the channels into two halves; the second is larger if their number is odd.
  std::pair<ValueId, ValueId> halves(ValueId x, const std::string &name);
  // A random rotation matrix: a product of random reflections.
  ValueId rotationParam(const std::string &name, int64_t size);
  // Doubles height and width, with a 2x2 kernel and bias.
  ValueId upConv(ValueId x, int64_t channels, const std::string &name);
  ValueId maxPool(ValueId x, int64_t kernel, int64_t stride, int64_t pad, const std::string &name);
  // With running averages as state and, in training, their update.
  ValueId batchNorm(ValueId x, const std::string &name);
  ValueId layerNorm(ValueId x, const std::string &name);
  ValueId dropout(ValueId x, double ratio, const std::string &name); // `x` itself if the ratio is 0
  ValueId flatten(ValueId x, const std::string &name);    // to [N, rest]; `x` itself if it is
  ValueId globalPool(ValueId x, const std::string &name); // [N, C, H, W] to [N, C]
  int64_t nextStream() { return ++streams_; }

  // Names the first output and returns the graph.
  Graph finish(ValueId y, llvm::StringRef name = "y");

  void addOutput(ValueId v, OutputRole role = {}) { outputs_.emplace_back(v, role); }
  void setLoss(ValueId v) { g_.loss = v; }

private:
  std::vector<std::pair<ValueId, OutputRole>> outputs_; // after `y`
  int64_t streams_ = 0;
};

// One function a model; the table in zoo.cc names them.
llvm::Expected<Graph> buildMlp(const Sizes &s);
llvm::Expected<Graph> buildCnn(const Sizes &s);
llvm::Expected<Graph> buildResnet(const Sizes &s);
llvm::Expected<Graph> buildVgg16(const Sizes &s);
llvm::Expected<Graph> buildUnet(const Sizes &s);
llvm::Expected<Graph> buildMobilenetV2(const Sizes &s);
llvm::Expected<Graph> buildDensenet(const Sizes &s);
llvm::Expected<Graph> buildGpt2(const Sizes &s);
llvm::Expected<Graph> buildVae(const Sizes &s);
llvm::Expected<Graph> buildNice(const Sizes &s);
llvm::Expected<Graph> buildRealNvp(const Sizes &s);
llvm::Expected<Graph> buildGlow(const Sizes &s);
llvm::Expected<Graph> buildRevNet(const Sizes &s);
llvm::Expected<Graph> buildIRevNet(const Sizes &s);
llvm::Expected<Graph> buildIResNet(const Sizes &s);

// Depths of one family, up to `most`; see zooDepths.
std::vector<int64_t> resnetDepths(const Sizes &s, int64_t most);
std::vector<int64_t> densenetDepths(const Sizes &s, int64_t most);

} // namespace isthmus::zoo
