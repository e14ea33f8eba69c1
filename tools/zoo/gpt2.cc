// Radford et al. 2019: a decoder of pre-normalized transformer blocks, its head tied to the
// embedding.
//
// Activations are [batch * tokens, width], so that every product with a weight is a product of
// matrices. The result is [batch * tokens, vocab]: cross entropy has its classes in axis 1, as for
// every model here.

#include "tools/cli/exit.h"
#include "tools/zoo/model.h"
#include <cmath>

namespace isthmus::zoo {
namespace {

constexpr double kStd = 0.02; // of all weights except those that end a residual branch

class Gpt2 {
public:
  Gpt2(Model &m, const Sizes &s) : m_(m), s_(s) {}

  ValueId build() {
    ValueId ids = m_.input("ids", DType::I64, {s_.batch, s_.tokens});
    ValueId table = m_.normalParam("wte", {s_.vocab, s_.width}, kStd);
    ValueId positions = m_.normalParam("wpe", {s_.tokens, s_.width}, kStd / 2);
    ValueId x = m_.op("gather", {table, ids}, "embedding", {{"axis", int64_t(0)}});
    x = m_.op("add", {x, positions}, "embedding.sum");
    x = m_.op("reshape", {x}, "embedding.rows", {{"dims", Ints{s_.batch * s_.tokens, s_.width}}});
    x = m_.dropout(x, s_.dropout, "embedding.dropout");
    if (!s_.fused) { // zero where a token may attend: at itself and earlier tokens
      ValueId far = m_.fillInput(InputKind::Const, "far", {s_.tokens, s_.tokens}, -1e9);
      mask_ = m_.op("trilu", {far}, "mask", {{"k", int64_t(1)}, {"upper", true}});
    }
    for (int64_t i = 0; i < s_.depth; ++i)
      x = block(x, "h" + std::to_string(i));
    x = m_.layerNorm(x, "ln_f");
    return m_.op("matmul", {x, table}, "logits", {{"transpose_b", true}});
  }

private:
  ValueId linear(ValueId x, int64_t features, const std::string &name, double std) {
    ValueId w = m_.normalParam(name + ".weight", {m_.dim(x, 1), features}, std);
    ValueId bias = m_.fillInput(InputKind::Param, name + ".bias", {features}, 0);
    return m_.op("add", {m_.op("matmul", {x, w}, name + ".product"), bias}, name);
  }

  // [batch * tokens, width] to [batch, heads, tokens, width / heads], and back.
  ValueId split(ValueId x, const std::string &name) {
    x = m_.op("reshape", {x}, name + ".heads",
              {{"dims", Ints{s_.batch, s_.tokens, s_.heads, s_.width / s_.heads}}});
    return m_.op("transpose", {x}, name, {{"perm", Ints{0, 2, 1, 3}}});
  }
  ValueId join(ValueId x, const std::string &name) {
    x = m_.op("transpose", {x}, name + ".tokens", {{"perm", Ints{0, 2, 1, 3}}});
    return m_.op("reshape", {x}, name, {{"dims", Ints{s_.batch * s_.tokens, s_.width}}});
  }

  ValueId attention(ValueId x, const std::string &in) {
    ValueId qkv = linear(x, 3 * s_.width, in + ".qkv", kStd);
    NodeId parts = m_.b.createNode(
        "split", {qkv}, {{"axis", int64_t(1)}, {"sizes", Ints{s_.width, s_.width, s_.width}}},
        in + ".parts");
    const Node &n = m_.b.graph().node(parts);
    ValueId q = split(n.result(0), in + ".q"), k = split(n.result(1), in + ".k"),
            v = split(n.result(2), in + ".v");
    ValueId y = join(s_.fused ? mixed(q, k, v, in) : mixedWrittenOut(q, k, v, in), in + ".mixed");
    return linear(y, s_.width, in + ".proj", residualStd());
  }
  double scale() const { return 1 / std::sqrt(double(s_.width / s_.heads)); }
  ValueId mixed(ValueId q, ValueId k, ValueId v, const std::string &in) {
    return m_.op("attention", {q, k, v}, in + ".mix", {{"scale", scale()}, {"causal", true}});
  }
  ValueId mixedWrittenOut(ValueId q, ValueId k, ValueId v, const std::string &in) {
    ValueId scores = m_.op("matmul", {q, k}, in + ".scores", {{"transpose_b", true}});
    scores = m_.op("affine", {scores}, in + ".scaled", {{"scale", scale()}});
    scores = m_.op("add", {scores, mask_}, in + ".masked");
    ValueId weights = m_.op("softmax", {scores}, in + ".softmax", {{"axis", int64_t(-1)}});
    weights = m_.dropout(weights, s_.dropout, in + ".dropout");
    return m_.op("matmul", {weights, v}, in + ".mix");
  }

  ValueId block(ValueId x, const std::string &in) {
    ValueId y = attention(m_.layerNorm(x, in + ".ln1"), in + ".attn");
    x = m_.op("add", {x, m_.dropout(y, s_.dropout, in + ".drop1")}, in + ".sum1");
    y = linear(m_.layerNorm(x, in + ".ln2"), 4 * s_.width, in + ".mlp.fc", kStd);
    y = m_.op("gelu", {y}, in + ".mlp.gelu", {{"approximate", std::string("tanh")}});
    y = linear(y, s_.width, in + ".mlp.proj", residualStd());
    return m_.op("add", {x, m_.dropout(y, s_.dropout, in + ".drop2")}, in + ".sum2");
  }

  double residualStd() const { return kStd / std::sqrt(2 * double(s_.depth)); }

  Model &m_;
  const Sizes &s_;
  ValueId mask_;
};

} // namespace

llvm::Expected<Graph> buildGpt2(const Sizes &s) {
  if (s.width % s.heads)
    return usageError("gpt2 expects --width to be a multiple of --heads, got {0} and {1}", s.width,
                      s.heads);
  if (s.fused && s.dropout != 0)
    return usageError("gpt2 with --fused=1 expects --dropout=0, since its attention has no "
                      "weights to drop any of, got {0}",
                      floatText(s.dropout));
  if (llvm::Error e =
          checkElements("an activation", {s.batch, s.tokens, std::max(4 * s.width, s.vocab)}))
    return e;
  if (!s.fused) // the fused op never stores the scores
    if (llvm::Error e = checkElements("the attention", {s.batch, s.heads, s.tokens, s.tokens}))
      return e;
  if (llvm::Error e = checkElements("a weight", {s.width, std::max(4 * s.width, s.vocab)}))
    return e;
  Model m("gpt2");
  ValueId y = Gpt2(m, s).build();
  return m.finish(y);
}

} // namespace isthmus::zoo
