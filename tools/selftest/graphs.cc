// Whole training graphs: networks of the zoo, and random ones over every row of the op table.

#include "passes/lower/channels_last.h"
#include "passes/lower/convert.h"
#include "tools/random/draw.h"
#include "tools/random/random_table_graph.h"
#include "tools/selftest/selftest.h"
#include <cmath>

namespace isthmus {

// A network's training step. If the network names no loss, the loss is the mean of its output.
static llvm::Expected<Graph> zooStep(const std::string &name, const ZooOptions &options) {
  auto forward = buildZoo(name, options);
  if (!forward)
    return forward.takeError();
  StepOptions step;
  if (!forward->loss)
    step.loss = LossOptions{LossKind::Mean};
  return trainingStep(std::move(*forward), step);
}

llvm::Error Selftest::checkNetwork(const std::string &name, const ZooOptions &options) {
  auto g = zooStep(name, options);
  if (!g)
    return g.takeError();
  g = lowered(std::move(*g), loweringFor(device_.target(), ChannelLayout::Auto));
  auto want = outputsOf(*g, AsItIs(), device_);
  if (!want)
    return want.takeError();
  if (llvm::Error e = checkPolicies(name, *g, {Policy::Speed, Policy::Memory}, *want))
    return e;
  return convolvesChannelsFirst(*g, {DType::F32}) ? checkChannelsLast(name, *g, want->front())
                                                  : llvm::Error::success();
}

llvm::Error Selftest::checkChannelsLast(const std::string &name, const Graph &wide,
                                        const Tensor &y) {
  auto g = withPrecision(wide, DType::BF16);
  if (!g)
    return g.takeError();
  *g = withChannelsLast(*g);
  auto want = outputsOf(*g, AsItIs(), device_);
  if (!want)
    return want.takeError();
  const std::string form = name + " in bf16, channels last";
  check(isClose(want->front(), y, 0.25), form + ": another result");
  return checkPolicies(form, *g, {Policy::Memory}, *want);
}

llvm::Error Selftest::checkRecording(const std::string &name, const ZooOptions &options) {
  auto g = zooStep(name, options);
  if (!g)
    return g.takeError();
  auto once = outputsOf(*g, AsItIs(), device_);
  if (!once)
    return once.takeError();
  Report report;
  auto often = outputsOf(*g, AsItIs(), device_, &report, /*steps=*/4);
  if (!often)
    return often.takeError();
  for (size_t i = 0; i < once->size(); ++i)
    check(sameBits((*often)[i], (*once)[i]), name + ": repeated steps give other bits");
  for (const std::string &note : report.deviceNotes)
    check(!llvm::StringRef(note).contains("recording one failed"), name + ": " + note);
  return llvm::Error::success();
}

void Selftest::checkRecording() {
  const std::pair<const char *, ZooOptions> networks[] = {
      {"mlp", {{"batch", "64"}}}, {"cnn", {{"batch", "2"}}}, {"vae", {{"batch", "4"}}}, // draws
  };
  for (const auto &[name, options] : networks)
    check(checkRecording(name, options), name);
}

void Selftest::checkNetworks() {
  const ZooOptions gpt2 = {{"depth", "2"}, {"width", "64"},  {"heads", "4"},
                           {"batch", "1"}, {"tokens", "32"}, {"vocab", "128"}};
  ZooOptions fused = gpt2;
  fused["fused"] = "1";
  fused["dropout"] = "0";
  const std::pair<const char *, ZooOptions> networks[] = {
      {"mlp", {{"batch", "64"}}},
      {"cnn", {{"batch", "2"}}},
      {"resnet", {{"depth", "20"}, {"batch", "2"}, {"shape", "3x32x32"}}},
      {"unet", {{"batch", "1"}, {"shape", "1x32x32"}}},
      {"mobilenetv2", {{"batch", "1"}, {"shape", "3x64x64"}}},
      {"gpt2", gpt2},
      {"gpt2", fused},
      {"vae", {{"batch", "4"}}},
  };
  ProgressBar bar("networks", std::size(networks));
  for (size_t i = 0; i < std::size(networks); ++i) {
    bar.at(i);
    check(checkNetwork(networks[i].first, networks[i].second), networks[i].first);
  }
}

namespace {

// In f64 rounding hardly ever decides a comparison, so the results of two devices can be compared.
RandomTableOptions optionsOf(uint64_t seed) {
  RandomTableOptions o = tableOptions(seed);
  o.dtype = DType::F64;
  o.mixed = false;
  return o;
}

} // namespace

llvm::Error Selftest::checkRandomGraph(uint64_t seed) {
  StepOptions step;
  step.wrt.kind = Wrt::Kind::All;
  auto g = trainingStep(randomTableGraph(optionsOf(seed)).graph, step);
  if (!g)
    return g.takeError();
  const std::string name = "random graph " + std::to_string(seed);
  auto exact = outputsOf(*g, AsItIs(), reference_);
  g = lowered(std::move(*g), loweringFor(device_.target(), ChannelLayout::Auto));
  auto got = outputsOf(*g, AsItIs(), device_);
  if (!exact || !got)
    return llvm::joinErrors(exact.takeError(), got.takeError());
  constexpr double kTolerance = 1e-7; // for nested sums and steep functions
  for (size_t i = 0; i < exact->size(); ++i)
    check(isClose((*got)[i], (*exact)[i], kTolerance),
          name + ": output '" + g->valueName(g->outputs()[i]).str() + "'");
  return checkPolicies(name, *g, {Policy::Memory}, *got);
}

void Selftest::checkRandomGraphs(size_t count) {
  ProgressBar bar("random graphs", count);
  for (size_t i = 0; i < count; ++i) {
    bar.at(i);
    check(checkRandomGraph(i), "random graph " + std::to_string(i));
  }
}

} // namespace isthmus
