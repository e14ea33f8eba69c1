// Measures convolutions of ResNet-50, MobileNetV2 and a U-Net: ours, with copies between layouts,
// and oneDNN's best implementation, on layouts of its own choice without copies.
//
// Usage: conv_bench [BATCH [THREADS [LAYER]]]      (8, all cores, all layers whose name contains
// LAYER)

#include "ir/op_registry.h"
#include "kernels/element/conv_shape.h"
#include "kernels/gemm/register.h"
#include "kernels/onednn/dnnl.h"
#include "kernels/onednn/register.h"
#include "kernels/plain/register.h"
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <unordered_map>

namespace isthmus {
namespace {

struct Layer {
  const char *name;
  int64_t in, size, out, kernel, stride, groups;
};

const Layer kLayers[] = {
    {"resnet50 conv1", 3, 224, 64, 7, 2, 1},       {"resnet50 2a 1x1", 64, 56, 64, 1, 1, 1},
    {"resnet50 2b 3x3", 64, 56, 64, 3, 1, 1},      {"resnet50 2c 1x1", 64, 56, 256, 1, 1, 1},
    {"resnet50 3a 1x1", 256, 56, 128, 1, 1, 1},    {"resnet50 3b 3x3/2", 128, 56, 128, 3, 2, 1},
    {"resnet50 3s 1x1/2", 256, 56, 512, 1, 2, 1},  {"resnet50 3c 1x1", 128, 28, 512, 1, 1, 1},
    {"resnet50 4b 3x3", 256, 14, 256, 3, 1, 1},    {"resnet50 4c 1x1", 256, 14, 1024, 1, 1, 1},
    {"resnet50 5b 3x3", 512, 7, 512, 3, 1, 1},     {"resnet50 5c 1x1", 512, 7, 2048, 1, 1, 1},
    {"mobilenet2 first", 3, 224, 32, 3, 2, 1},     {"mobilenet2 dw 32", 32, 112, 32, 3, 1, 32},
    {"mobilenet2 1x1 16", 32, 112, 16, 1, 1, 1},   {"mobilenet2 1x1 96", 16, 112, 96, 1, 1, 1},
    {"mobilenet2 dw 96/2", 96, 112, 96, 3, 2, 96}, {"mobilenet2 dw 192", 192, 28, 192, 3, 1, 192},
    {"mobilenet2 dw 960", 960, 7, 960, 3, 1, 960}, {"mobilenet2 last", 320, 7, 1280, 1, 1, 1},
    {"unet first", 1, 128, 64, 3, 1, 1},           {"unet down 64", 64, 128, 64, 3, 1, 1},
    {"unet down 128", 128, 64, 128, 3, 1, 1},      {"unet bottom", 512, 16, 1024, 3, 1, 1},
    {"unet up 2x2/2", 64, 128, 128, 2, 2, 1},      {"unet joined", 256, 64, 128, 3, 1, 1},
    {"unet last 1x1", 64, 128, 2, 1, 1, 1},        {"resnext 32x4", 128, 56, 128, 3, 1, 32},
};

// With one thread, the thread's processor time, which other programs affect little.
double now(int threads) {
  timespec t;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

template <typename Run> double secondsOf(Run run) {
  int threads = omp_get_max_threads();
  run();
  double best = 1e30, total = 0;
  for (int i = 0; i < 20 && (i < 3 || total < 0.3); ++i) {
    double start = now(threads);
    run();
    double s = now(threads) - start;
    best = std::min(best, s);
    total += s;
  }
  return best;
}

struct Bytes {
  explicit Bytes(int64_t n)
      : data(static_cast<char *>(std::aligned_alloc(64, size_t(n + 64) / 64 * 64))) {
    for (int64_t i = 0; i < n / 4; ++i)
      reinterpret_cast<float *>(data)[i] = float(i % 17) / 17 - 0.5f;
  }
  Bytes(const Bytes &) = delete;
  Bytes(Bytes &&o) : data(std::exchange(o.data, nullptr)) {}
  ~Bytes() { std::free(data); }
  char *data;
};

// The time without copies, on the layouts that oneDNN prefers; zero if it has no kernel.
template <typename PrimitiveDesc>
double bestSeconds(PrimitiveDesc &pd, std::string &name,
                   std::initializer_list<std::pair<int, dnnl::memory::desc>> args) {
  using namespace onednn;
  name = pd.impl_info_str();
  dnnl::primitive p(pd);
  dnnl::stream stream(engine());
  std::vector<Bytes> bytes;
  std::unordered_map<int, memory> memories;
  for (auto &[arg, desc] : args) {
    bytes.emplace_back(int64_t(desc.get_size()));
    memories.emplace(arg, memory(desc, engine(), bytes.back().data));
  }
  return secondsOf([&] {
    p.execute(stream, memories);
    stream.wait();
  });
}

double bestOf(const char *op, const ConvShape &s, std::string &name) {
  using namespace onednn;
  auto any = [](memory::dims d) { return anyDesc(d, memory::data_type::f32); };
  memory::dims w = {s.outChannels, s.channels, s.kernel[1], s.kernel[2]};
  if (s.groups > 1)
    w = {s.groups, s.groupOutChannels(), s.groupChannels(), s.kernel[1], s.kernel[2]};
  memory::desc x = any({s.batch, s.channels, s.in[1], s.in[2]}),
               y = any({s.batch, s.outChannels, s.out[1], s.out[2]});
  memory::dims strides = {s.stride[1], s.stride[2]}, pad = {s.pad[1], s.pad[2]}, none = {0, 0};
  auto direct = dnnl::algorithm::convolution_direct;
  dnnl::convolution_forward::desc fd(dnnl::prop_kind::forward_training, direct, x, any(w), y,
                                     strides, none, pad, pad);
  dnnl::convolution_forward::primitive_desc f(fd, userScratchpad(), engine());
  if (llvm::StringRef(op) == "conv")
    return bestSeconds(f, name,
                       {{DNNL_ARG_SRC, f.src_desc()},
                        {DNNL_ARG_WEIGHTS, f.weights_desc()},
                        {DNNL_ARG_DST, f.dst_desc()},
                        {DNNL_ARG_SCRATCHPAD, f.scratchpad_desc()}});
  if (llvm::StringRef(op) == "conv_transpose") {
    dnnl::convolution_backward_data::desc d(direct, x, any(w), y, strides, none, pad, pad);
    dnnl::convolution_backward_data::primitive_desc b(d, userScratchpad(), engine(), f);
    return bestSeconds(b, name,
                       {{DNNL_ARG_DIFF_SRC, b.diff_src_desc()},
                        {DNNL_ARG_WEIGHTS, b.weights_desc()},
                        {DNNL_ARG_DIFF_DST, b.diff_dst_desc()},
                        {DNNL_ARG_SCRATCHPAD, b.scratchpad_desc()}});
  }
  dnnl::convolution_backward_weights::desc d(direct, x, any(w), y, strides, none, pad, pad);
  dnnl::convolution_backward_weights::primitive_desc b(d, userScratchpad(), engine(), f);
  return bestSeconds(b, name,
                     {{DNNL_ARG_SRC, b.src_desc()},
                      {DNNL_ARG_DIFF_WEIGHTS, b.diff_weights_desc()},
                      {DNNL_ARG_DIFF_DST, b.diff_dst_desc()},
                      {DNNL_ARG_SCRATCHPAD, b.scratchpad_desc()}});
}

void bench(const Layer &layer, const char *op, int64_t batch, int threads,
           const KernelTable &table) {
  Type x(DType::F32, {batch, layer.in, layer.size, layer.size});
  Type w(DType::F32, {layer.out, layer.in / layer.groups, layer.kernel, layer.kernel});
  int64_t pad = layer.kernel == 2 ? 0 : layer.kernel / 2,
          size = (layer.size + 2 * pad - layer.kernel) / layer.stride + 1;
  Type y(DType::F32, {batch, layer.out, size, size});
  Attrs attrs = {{"strides", Ints{layer.stride, layer.stride}},
                 {"pads", Ints{pad, pad, pad, pad}},
                 {"groups", layer.groups}};
  llvm::StringRef name = op;
  if (name == "conv_transpose")
    attrs.set("dims", Ints{layer.size, layer.size});
  if (name == "conv_weight_grad")
    attrs.set("kernel", Ints{layer.kernel, layer.kernel});
  OpCall call;
  call.op = &OpRegistry::get().at(op);
  llvm::cantFail(completeAttrs(*call.op, attrs));
  call.attrs = &attrs;
  call.operands = name == "conv"             ? llvm::SmallVector<Type, 4>{x, w}
                  : name == "conv_transpose" ? llvm::SmallVector<Type, 4>{y, w}
                                             : llvm::SmallVector<Type, 4>{y, x};
  call.results = llvm::cantFail(inferTypes(*call.op, attrs, call.operands));

  KernelOptions options;
  options.threads = threads;
  Bytes a(call.operands[0].bytes()), b(call.operands[1].bytes()), out(call.results[0].bytes());
  const void *operands[] = {a.data, b.data};
  void *results[] = {out.data};
  TeamSize team(threads);
  std::string best;
  double bare = bestOf(op, convShape(call), best), flops = costOf(call).flops;
  bool isTaken = false;
  for (const Kernel &k : table.of(op)) {
    auto kernel = isTaken && k.library == "plain" ? nullptr : k.prepare(call, options);
    if (!kernel)
      continue;
    isTaken = true;
    Bytes workspace(kernel->workspaceBytes());
    KernelArgs args;
    args.operands = operands;
    args.results = results;
    args.workspace = workspace.data;
    double ours = secondsOf([&] { kernel->run(args); });
    std::printf(
        "%-20s %-17s %-7s %8.2f ms %7.1f GFLOP/s  %5.0f%% of %7.1f by %-24s workspace %7.2f MiB\n",
        layer.name, op, k.library.str().c_str(), ours * 1e3, flops / ours * 1e-9, 100 * bare / ours,
        flops / bare * 1e-9, best.c_str(), double(kernel->workspaceBytes()) / (1 << 20));
    std::fflush(stdout);
  }
}

} // namespace
} // namespace isthmus

int main(int argc, char **argv) {
  using namespace isthmus;
  int64_t batch = argc > 1 ? std::atol(argv[1]) : 8;
  int threads = argc > 2 ? std::atoi(argv[2]) : omp_get_num_procs();
  KernelTable table;
  registerGemmKernels(table);
  registerOneDnnKernels(table);
  registerPlainConv(table);
  for (const Layer &layer : kLayers)
    if (argc <= 3 || llvm::StringRef(layer.name).contains(argv[3]))
      for (const char *op : {"conv", "conv_transpose", "conv_weight_grad"})
        bench(layer, op, batch, threads, table);
}
