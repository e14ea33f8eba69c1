// The verb around tools/selftest.

#include "tools/selftest/selftest.h"
#include "kernels/plain/register.h"
#include "runtime/cpu_device.h"
#include "tools/cli/console.h"
#include "tools/cli/devices.h"
#include "tools/cli/exit.h"
#include "tools/verbs/verbs.h"
#include "llvm/Support/raw_ostream.h"

namespace isthmus {
namespace {

struct Options {
  std::string device = "cpu";
  int threads = 0;
  size_t graphs = 1000;
};

llvm::Error selftest(const Options &o) {
  auto device = openDevice(o.device, {o.threads});
  if (!device)
    return device.takeError();
  if (!(*device)->computes())
    return usageError("'{0}' does not compute, so there is nothing to test", o.device);
  KernelTable plain;
  registerPlainKernels(plain);
  auto reference = makeCpuDevice(plain, o.threads);
  Console::get().setQuiet(true); // that a small network has nothing to gain is no news here
  Selftest test(**device, *reference);
  test.checkKernels();
  test.checkNetworks();
  test.checkRandomGraphs(o.graphs);
  test.checkMemory();
  test.checkOutOfMemory();
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
      ->check(positiveInteger());
  app.add_option("--graphs", o->graphs,
                 "random training graphs to compare with the CPU's plain kernels")
      ->capture_default_str();
  return [o] { return selftest(*o); };
}

} // namespace

const Verb kSelftest = {"selftest",
                        "checks kernels, networks, random graphs and peaks on this machine",
                        "isthmus selftest --device=cuda", setUp};

} // namespace isthmus
