// Does this build compute rightly on this machine? Kernels against the plain ones in f64, then
// whole networks under every policy: the same bits, and the peak that was promised.

#include "ir/builder.h"
#include "ir/text/parser.h"
#include "kernels/plain/register.h"
#include "passes/convert.h"
#include "tools/cli/console.h"
#include "tools/cli/devices.h"
#include "tools/cli/execute.h"
#include "tools/cli/feeds.h"
#include "tools/cli/model.h"
#include "tools/verbs/verbs.h"
#include "tools/zoo/zoo.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <cstring>

namespace isthmus {
namespace {

struct Options {
  std::string device = "cpu";
  int threads = 0;
};

class Selftest {
public:
  Selftest(Device &device) : device_(device) {}

  llvm::Error run() {
    Console::get().setQuiet(true); // that a small network has nothing to gain is no news here
    checkKernels();
    checkNetworks();
    llvm::outs() << passed_ << " passed, " << failed_ << " failed\n";
    if (failed_)
      return makeErrorCode(4, "{0} checks failed on {1}", failed_, device_.name());
    return llvm::Error::success();
  }

private:
  void check(bool ok, const std::string &what) {
    (ok ? passed_ : failed_) += 1;
    if (!ok)
      Console::get().line("failed: " + what);
  }

  // A graph of one node over drawn inputs, in f64; for the device it is converted to f32.
  llvm::Expected<Graph> exampleGraph(const OpDef &op, const std::string &example) {
    auto call = parseCall(example);
    if (!call)
      return call.takeError();
    Graph g("example");
    ValueList operands;
    for (const Type &t : call->operands) {
      Initializer init;
      if (isFloat(t.dtype)) {
        init.kind = Initializer::Kind::Uniform;
        init.args = {{"low", op.low}, {"high", op.high}, {"seed", int64_t(operands.size())}};
      }
      auto v = g.addInput(InputKind::Input, "x" + std::to_string(operands.size()), t, init);
      if (!v)
        return v.takeError();
      operands.push_back(*v);
    }
    auto n = g.addNode(op, operands, call->attrs);
    if (!n)
      return n.takeError();
    for (uint32_t r = 0; r < g.node(*n).numResults; ++r)
      g.addOutput(g.node(*n).result(r));
    return g;
  }

  llvm::Expected<std::vector<Tensor>> outputsOf(const Graph &g, const PlanOptions &plan,
                                                Device &device, Report *report = nullptr) {
    auto p = planned(g, plan, device.target());
    if (!p)
      return p.takeError();
    Report r = p->report;
    auto e = execute(*p, device, {}, r);
    if (!e)
      return e.takeError();
    std::vector<Tensor> out;
    for (ValueId v : p->graph.outputs()) {
      auto t = (*e)->fetch(v);
      if (!t)
        return t.takeError();
      out.push_back(std::move(*t));
    }
    if (report)
      *report = r;
    return out;
  }

  static bool isClose(const Tensor &a, const Tensor &exact) {
    if (a.type.dims != exact.type.dims)
      return false;
    if (a.type.dtype != DType::F32 || exact.type.dtype != DType::F64)
      return a.type == exact.type && std::memcmp(a.data, exact.data, a.bytes()) == 0;
    for (int64_t i = 0; i < a.type.elements(); ++i) {
      double x = a.as<float>()[i], y = exact.as<double>()[i];
      if (!(std::abs(x - y) <= 1e-4 * (1 + std::abs(y))) && !(std::isnan(x) && std::isnan(y)))
        return false;
    }
    return true;
  }

  llvm::Error checkKernel(const OpDef &op, const std::string &example) {
    auto exact = exampleGraph(op, example);
    if (!exact)
      return exact.takeError();
    auto single = withPrecision(*exact, DType::F32);
    if (!single)
      return single.takeError();
    auto want = outputsOf(*exact, {}, device_);
    if (!want)
      return want.takeError();
    auto got = outputsOf(*single, {}, device_);
    if (!got)
      return got.takeError();
    bool ok = true;
    for (size_t i = 0; i < want->size(); ++i)
      ok &= isClose((*got)[i], (*want)[i]);
    check(ok, "kernel of " + example);
    return llvm::Error::success();
  }

  void checkKernels() {
    for (const OpDef *op : OpRegistry::get().rows()) {
      if (op->is(kView))
        continue;
      for (const std::string &example : op->examples)
        if (llvm::Error e = checkKernel(*op, example))
          check(false, example + ": " + llvm::toString(std::move(e)));
    }
  }

  llvm::Error checkNetwork(const std::string &name, const ZooOptions &options) {
    auto forward = buildZoo(name, options);
    if (!forward)
      return forward.takeError();
    ModelOptions model;
    model.model = name;
    model.loss = forward->loss ? "" : "mean";
    auto g = differentiated(std::move(*forward), model);
    if (!g)
      return g.takeError();
    auto want = outputsOf(*g, {}, device_);
    if (!want)
      return want.takeError();
    for (const char *policy : {"speed", "memory"}) {
      PlanOptions plan;
      plan.policy = policy;
      Report report;
      auto got = outputsOf(*g, plan, device_, &report);
      if (!got)
        return got.takeError();
      bool equal = true;
      for (size_t i = 0; i < want->size(); ++i)
        equal &= std::memcmp((*got)[i].data, (*want)[i].data, (*want)[i].bytes()) == 0;
      check(equal, name + " under " + policy + ": not the same bits");
      check(report.measuredPeakBytes.front() == report.predictedPeakBytes,
            name + " under " + policy + ": peak");
      check(report.predictedPeakBytes <= report.baselinePeakBytes,
            name + " under " + policy + ": above the baseline");
    }
    return llvm::Error::success();
  }

  void checkNetworks() {
    const std::pair<const char *, ZooOptions> networks[] = {
        {"mlp", {{"batch", "64"}}},
        {"cnn", {{"batch", "2"}}},
        {"resnet", {{"depth", "20"}, {"batch", "2"}, {"shape", "3x32x32"}}},
        {"unet", {{"batch", "1"}, {"shape", "1x32x32"}}},
        {"mobilenetv2", {{"batch", "1"}, {"shape", "3x64x64"}}},
        {"gpt2",
         {{"depth", "2"},
          {"width", "64"},
          {"heads", "4"},
          {"batch", "1"},
          {"tokens", "32"},
          {"vocab", "128"}}},
        {"vae", {{"batch", "4"}}},
    };
    ProgressBar bar("networks", std::size(networks));
    for (size_t i = 0; i < std::size(networks); ++i) {
      bar.at(i);
      if (llvm::Error e = checkNetwork(networks[i].first, networks[i].second))
        check(false, std::string(networks[i].first) + ": " + llvm::toString(std::move(e)));
    }
  }

  Device &device_;
  size_t passed_ = 0, failed_ = 0;
};

VerbBody setUp(CLI::App &app) {
  auto o = std::make_shared<Options>();
  app.add_option("--device", o->device, "the device to test")->capture_default_str();
  app.add_option("--threads", o->threads, "CPU threads; default: one for each core")
      ->check(CLI::PositiveNumber);
  return [o]() -> llvm::Error {
    auto device = openDevice(o->device, o->threads);
    if (!device)
      return device.takeError();
    if (!(*device)->computes())
      return makeErrorCode(2, "'{0}' does not compute, so there is nothing to test", o->device);
    return Selftest(**device).run();
  };
}

} // namespace

const Verb kSelftest = {"selftest", "checks kernels, networks and peaks on this machine",
                        "isthmus selftest --device=cpu", setUp};

} // namespace isthmus
