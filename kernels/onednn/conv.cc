// Convolutions by oneDNN in its preferred layouts, a part of the batch at a time (program.h).

#include "kernels/onednn/program.h"
#include "kernels/onednn/register.h"
#include "kernels/element/conv_shape.h"

namespace isthmus::onednn {
namespace {

using dnnl::algorithm;
using dnnl::prop_kind;
using When = Program::When;

// Sizes of one round, in oneDNN's terms.
struct Shape {
  int64_t rounds = 1, images = 1; // images per round
  memory::dims x, y, w;           // x, y: sizes of a round
  memory::dims strides, dilations, padLow, padHigh;
  memory::data_type type;
  bool channelsLast = false;
  int64_t xStep = 0, yStep = 0; // bytes from round to round

  // The layouts of x, y and w in our memory. oneDNN lists channels before spatial axes for every
  // layout. Weights with groups have one more axis.
  memory::desc given(const memory::dims &d, memory::data_type t) const {
    return denseDesc(d, t, channelsLast ? d.size() - x.size() + 1 : d.size() - 1);
  }
  memory::desc given(const memory::dims &d) const { return given(d, type); }
  memory::desc dense(const memory::dims &d) const { return denseDesc(d, type); }
  memory::desc any(const memory::dims &d) const { return anyDesc(d, type); }
};

// Limit for a round's copies: about the size of a core's private caches.
constexpr int64_t kRoundBytesPerThread = int64_t(1) << 20;

// Images per round: a divisor of the batch, so that all rounds are equal. Up to `least` images are
// allowed however much memory they take.
int64_t imagesPerRound(int64_t batch, int64_t bytesPerImage, int threads, int64_t least) {
  int64_t most =
      std::max(least, kRoundBytesPerThread * threads / std::max<int64_t>(1, bytesPerImage));
  for (int64_t n = std::min(batch, most); n > 1; --n)
    if (batch % n == 0)
      return n;
  return 1;
}

std::optional<Shape> shapeOf(const OpCall &call, int threads, bool sumsOverBatch) {
  auto type = dataType(call.operands[0].dtype);
  if (!type)
    return std::nullopt;
  for (const Type &t : call.operands)
    if (t.elements() == 0)
      return std::nullopt;
  if (call.results[0].elements() == 0)
    return std::nullopt;
  const OpCall c = channelsFirst(call);
  bool forward = call.op->name == "conv", transpose = call.op->name == "conv_transpose";
  const Type &y = forward ? c.results[0] : c.operands[0];
  const Type &x = forward ? c.operands[0] : transpose ? c.results[0] : c.operands[1];
  const Type &w = forward || transpose ? c.operands[1] : c.results[0];
  int64_t groups = call.attrs->getInt("groups");

  Shape s;
  s.type = *type;
  s.channelsLast = isChannelsLast(*call.attrs);
  s.x.assign(x.dims.begin(), x.dims.end());
  s.y.assign(y.dims.begin(), y.dims.end());
  s.w.assign(w.dims.begin(), w.dims.end());
  if (groups > 1) {
    s.w[0] /= groups;
    s.w.insert(s.w.begin(), groups);
  }
  int64_t places = 1;
  Window window = windowOf(*call.attrs, spatial(w));
  for (size_t i = 0; i < window.size(); ++i) {
    s.strides.push_back(window[i].stride);
    s.dilations.push_back(window[i].dilation - 1);
    s.padLow.push_back(window[i].padLow);
    s.padHigh.push_back(window[i].padHigh);
    places *= y.dims[2 + i];
  }
  // A weight gradient adds to all weights in each round, so a round must be long enough to be worth
  // that.
  int64_t least = sumsOverBatch ? (1000 + places - 1) / places : 1;
  int64_t batch = x.dims[0];
  s.images = imagesPerRound(batch, (x.bytes() + y.bytes()) / batch, threads, least);
  s.rounds = batch / s.images;
  s.x[0] = s.y[0] = s.images;
  s.xStep = x.bytes() / s.rounds;
  s.yStep = y.bytes() / s.rounds;
  return s;
}

std::unique_ptr<PreparedKernel> prepareConv(const OpCall &call, const KernelOptions &options) {
  return orNull(options, [&]() -> std::unique_ptr<PreparedKernel> {
    auto s = shapeOf(call, options.threads, /*sumsOverBatch=*/false);
    if (!s)
      return nullptr;
    bool hasBias = call.operands.size() > 2;
    memory::desc bias = hasBias ? s->dense({call.operands[2].dims[0]}) : memory::desc();
    dnnl::convolution_forward::desc desc(prop_kind::forward_training, algorithm::convolution_direct,
                                         s->any(s->x), s->any(s->w), bias, s->any(s->y), s->strides,
                                         s->dilations, s->padLow, s->padHigh);
    dnnl::convolution_forward::primitive_desc pd(desc, userScratchpad(), engine(),
                                                 /*allow_empty=*/true);
    if (!findImplementation(pd))
      return nullptr;
    auto p = std::make_unique<Program>(options.threads, s->rounds);
    auto x = p->asLayout(When::Each, p->operand(0, s->given(s->x), s->xStep), pd.src_desc());
    auto w = p->asLayout(When::Once, p->operand(1, s->given(s->w)), pd.weights_desc());
    auto y = p->result(0, s->given(s->y), s->yStep);
    auto inside = p->desc(y) == pd.dst_desc() ? y : p->workspace(pd.dst_desc());
    llvm::SmallVector<Program::Argument, 4> arguments = {
        {DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, inside}};
    if (hasBias)
      arguments.push_back({DNNL_ARG_BIAS, p->operand(2, bias)});
    p->primitive(When::Each, dnnl::convolution_forward(pd), pd.scratchpad_desc(), arguments);
    if (inside != y)
      p->reorder(When::Each, inside, y);
    return p;
  });
}

// The primitive descriptor of the forward convolution, which oneDNN requires as a hint.
dnnl::convolution_forward::primitive_desc forwardHint(const Shape &s) {
  dnnl::convolution_forward::desc desc(prop_kind::forward_training, algorithm::convolution_direct,
                                       s.any(s.x), s.any(s.w), s.any(s.y), s.strides, s.dilations,
                                       s.padLow, s.padHigh);
  return dnnl::convolution_forward::primitive_desc(desc, engine());
}

std::unique_ptr<PreparedKernel> prepareConvTranspose(const OpCall &call,
                                                     const KernelOptions &options) {
  return orNull(options, [&]() -> std::unique_ptr<PreparedKernel> {
    auto s = shapeOf(call, options.threads, /*sumsOverBatch=*/false);
    if (!s || (call.operands.size() > 2 && s->type != memory::data_type::f32))
      return nullptr;
    auto hint = forwardHint(*s);
    dnnl::convolution_backward_data::desc desc(algorithm::convolution_direct, s->any(s->x),
                                               s->any(s->w), s->any(s->y), s->strides, s->dilations,
                                               s->padLow, s->padHigh);
    dnnl::convolution_backward_data::primitive_desc pd(desc, userScratchpad(), engine(), hint,
                                                       /*allow_empty=*/true);
    if (!findImplementation(pd))
      return nullptr;
    auto p = std::make_unique<Program>(options.threads, s->rounds);
    auto g = p->asLayout(When::Each, p->operand(0, s->given(s->y), s->yStep), pd.diff_dst_desc());
    auto w = p->asLayout(When::Once, p->operand(1, s->given(s->w)), pd.weights_desc());
    auto x = p->result(0, s->given(s->x), s->xStep);
    auto inside = p->desc(x) == pd.diff_src_desc() ? x : p->workspace(pd.diff_src_desc());
    p->primitive(When::Each, dnnl::convolution_backward_data(pd), pd.scratchpad_desc(),
                 {{DNNL_ARG_DIFF_DST, g}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_SRC, inside}});
    if (inside != x)
      p->reorder(When::Each, inside, x);
    if (call.operands.size() > 2) {
      // oneDNN's backward convolution has no bias, so it is added here, while the round's images
      // are in the cache.
      int64_t channels = s->x[1],
              plane = s->xStep / int64_t(sizeof(float)) / (s->images * channels);
      p->function(When::Each, {p->operand(2, s->dense({channels})), x},
                  [=, images = s->images, last = s->channelsLast](char *const *at) {
                    auto *bias = reinterpret_cast<const float *>(at[0]);
                    auto *to = reinterpret_cast<float *>(at[1]);
                    int64_t rows = images * (last ? plane : channels);
                    int64_t length = last ? channels : plane;
#pragma omp parallel for schedule(static)
                    for (int64_t row = 0; row < rows; ++row)
                      for (int64_t i = 0; i < length; ++i)
                        to[row * length + i] += bias[last ? i : row % channels];
                  });
    }
    return p;
  });
}

std::unique_ptr<PreparedKernel> prepareConvWeightGrad(const OpCall &call,
                                                      const KernelOptions &options) {
  return orNull(options, [&]() -> std::unique_ptr<PreparedKernel> {
    auto s = shapeOf(call, options.threads, /*sumsOverBatch=*/true);
    if (!s)
      return nullptr;
    // Rounds are summed in f32.
    memory::desc anyW = anyDesc(s->w, memory::data_type::f32);
    auto hint = forwardHint(*s);
    dnnl::convolution_backward_weights::desc desc(algorithm::convolution_direct, s->any(s->x), anyW,
                                                  s->any(s->y), s->strides, s->dilations, s->padLow,
                                                  s->padHigh);
    dnnl::convolution_backward_weights::primitive_desc pd(desc, userScratchpad(), engine(), hint,
                                                          /*allow_empty=*/true);
    if (!findImplementation(pd))
      return nullptr;
    auto p = std::make_unique<Program>(options.threads, s->rounds);
    auto g = p->asLayout(When::Each, p->operand(0, s->given(s->y), s->yStep), pd.diff_dst_desc());
    auto x = p->asLayout(When::Each, p->operand(1, s->given(s->x), s->xStep), pd.src_desc());
    auto w = p->result(0, s->given(s->w));
    bool isF32 = s->type == memory::data_type::f32;
    auto total = isF32 || s->rounds == 1 ? w : p->workspace(s->given(s->w, memory::data_type::f32));
    bool direct = s->rounds == 1 && p->desc(total) == pd.diff_weights_desc();
    auto part = direct ? total : p->workspace(pd.diff_weights_desc());
    p->primitive(When::Each, dnnl::convolution_backward_weights(pd), pd.scratchpad_desc(),
                 {{DNNL_ARG_DIFF_DST, g}, {DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_WEIGHTS, part}});
    if (!direct)
      p->reorder(When::First, part, total);
    if (s->rounds > 1)
      p->reorder(When::Later, part, total, /*accumulate=*/true);
    if (total != w)
      p->reorder(When::Last, total, w);
    return p;
  });
}

} // namespace
} // namespace isthmus::onednn

namespace isthmus {

void registerOneDnnConv(KernelTable &table) {
  table.add({"conv", "onednn", onednn::prepareConv});
  table.add({"conv_transpose", "onednn", onednn::prepareConvTranspose});
  table.add({"conv_weight_grad", "onednn", onednn::prepareConvWeightGrad});
}

} // namespace isthmus
