// The verb around tools/selftest.

#include "tools/selftest/selftest.h"
#include "ir/op_registry.h"
#include "kernels/plain/register.h"
#include "runtime/cpu_device.h"
#include "tools/cli/console.h"
#include "tools/cli/devices.h"
#include "tools/cli/exit.h"
#include "tools/verbs/verbs.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>

namespace isthmus {
namespace {

struct Options {
  std::string device = "cpu";
  int threads = 0;
  size_t graphs = 1000;
  std::vector<std::string> only, ops;
};

struct Part {
  const char *name;
  std::function<void(Selftest &, const Options &)> run;
};

const std::vector<Part> &parts() {
  static const std::vector<Part> all = {
      {"kernels", [](Selftest &t, const Options &o) { t.checkKernels(o.ops); }},
      {"recording", [](Selftest &t, const Options &) { t.checkRecording(); }},
      {"networks", [](Selftest &t, const Options &) { t.checkNetworks(); }},
      {"graphs", [](Selftest &t, const Options &o) { t.checkRandomGraphs(o.graphs); }},
      {"memory",
       [](Selftest &t, const Options &) {
         t.checkMemory();
         t.checkOutOfMemory();
       }},
  };
  return all;
}

llvm::Error checkNames(const Options &o) {
  std::vector<llvm::StringRef> names;
  for (const Part &p : parts())
    names.push_back(p.name);
  for (const std::string &name : o.only)
    if (!llvm::is_contained(names, name))
      return usageError("--only expects {0}, got '{1}'{2}", llvm::join(names, ", "), name,
                        didYouMean(name, names));
  for (const std::string &name : o.ops)
    if (!OpRegistry::get().find(name))
      return usageError("--ops expects names of ops, got '{0}'; `isthmus ops` lists them", name);
  return llvm::Error::success();
}

// The figures of a part are printed at once, since a later part may never end.
void run(const Part &part, Selftest &test, const Options &o) {
  size_t passed = test.passed(), failed = test.failed();
  auto start = std::chrono::steady_clock::now();
  part.run(test, o);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  llvm::outs() << llvm::formatv("{0,-10}{1} passed, {2} failed, {3:F1} s\n", part.name,
                                test.passed() - passed, test.failed() - failed, seconds);
  llvm::outs().flush();
}

llvm::Error selftest(const Options &o) {
  if (llvm::Error e = checkNames(o))
    return e;
  auto device = openDevice(o.device, {o.threads});
  if (!device)
    return device.takeError();
  if (!(*device)->computes())
    return usageError("'{0}' does not compute, so there is nothing to test", o.device);
  KernelTable plain;
  registerPlainKernels(plain);
  auto reference = makeCpuDevice(plain, {o.threads});
  Console::get().setQuiet(true); // notes, such as that a small network gains nothing, are off
  Selftest test(**device, *reference);
  for (const Part &part : parts())
    if (o.only.empty() || llvm::is_contained(o.only, part.name))
      run(part, test, o);
  llvm::outs() << test.passed() << " passed, " << test.failed() << " failed\n";
  if (test.failed())
    return differsError("{0} checks failed on {1}", test.failed(), (*device)->name());
  return llvm::Error::success();
}

VerbBody setUp(CLI::App &app) {
  auto o = std::make_shared<Options>();
  app.add_option("--device", o->device, "the device to test: cpu, cuda or cuda:N")
      ->capture_default_str();
  app.add_option("--threads", o->threads, "CPU threads; default: one for each core")
      ->check(threadCount());
  app.add_option("--graphs", o->graphs,
                 "random training graphs to compare with the CPU's plain kernels")
      ->capture_default_str();
  app.add_option("--only", o->only,
                 "parts to run, with commas between: kernels, recording, networks, graphs, memory")
      ->delimiter(',');
  app.add_option("--ops", o->ops,
                 "ops whose kernels are checked, with commas between; default: all")
      ->delimiter(',');
  return [o] { return selftest(*o); };
}

} // namespace

const Verb kSelftest = {"selftest",
                        "checks kernels, networks, random graphs and peaks on this machine",
                        "isthmus selftest --device=cuda", setUp};

} // namespace isthmus
