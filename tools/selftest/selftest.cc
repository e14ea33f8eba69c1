#include "tools/selftest/selftest.h"

#include "tools/cli/console.h"
#include "tools/cli/execute.h"
#include "tools/random/draw.h"
#include <cmath>
#include <cstring>

namespace isthmus {

void Selftest::check(bool ok, const std::string &what) {
  (ok ? passed_ : failed_) += 1;
  if (!ok)
    Console::get().line("failed: " + what);
}
void Selftest::check(llvm::Error e, const std::string &what) {
  if (e)
    check(false, what + ": " + plainMessage(std::move(e)));
}

llvm::Expected<std::vector<Tensor>> outputsOf(const Graph &g, const PlanChoice &plan,
                                              Device &device, Report *report, int steps) {
  CompileOptions o;
  o.differentiates = false;
  o.lowering = LoweringOptions(); // the graph already has the form under test
  o.plan = plan;
  auto c = compile(g, o, device.target());
  if (!c)
    return c.takeError();
  Report r(c->figures);
  auto e = execute(*c, device, {steps}, r);
  if (!e)
    return e.takeError();
  std::vector<Tensor> out;
  for (ValueId v : c->graph.outputs()) {
    auto t = (*e)->fetch(v);
    if (!t)
      return t.takeError();
    out.push_back(std::move(*t));
  }
  if (report)
    *report = r;
  return out;
}

bool isClose(const Tensor &got, const Tensor &want, double tolerance) {
  if (got.type.dims != want.type.dims)
    return false;
  if (!isFloat(got.type.dtype) || !isFloat(want.type.dtype))
    return sameBits(got, want);
  std::vector<double> a = toDoubles(got), b = toDoubles(want);
  double largest = 1;
  for (double v : b)
    largest = std::isfinite(v) ? std::max(largest, std::fabs(v)) : largest;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i])) &&
        !(std::fabs(a[i] - b[i]) <= tolerance * largest))
      return false;
  return true;
}

llvm::Error Selftest::checkPolicies(const std::string &name, const Graph &g,
                                    llvm::ArrayRef<Policy> policies, llvm::ArrayRef<Tensor> want) {
  for (Policy policy : policies) {
    Report report;
    auto got = outputsOf(g, PolicyOptions{policy, ""}, device_, &report);
    if (!got)
      return got.takeError();
    bool equal = true;
    for (size_t i = 0; i < want.size(); ++i)
      equal &= sameBits((*got)[i], want[i]);
    const std::string under = name + " under " + policyName(policy).str();
    check(equal, under + ": not the same bits");
    check(report.measuredPeakBytes.front() == report.predictedPeakBytes, under + ": peak");
    check(report.predictedPeakBytes <= report.baselinePeakBytes, under + ": above the baseline");
  }
  return llvm::Error::success();
}

// The memory that a driver may take beside a run's: it rounds allocations up, and keeps recorded
// steps.
constexpr int64_t kDriverBytes = int64_t(32) << 20;

llvm::Error Selftest::checkMemoryOf(const Compiled &c) {
  auto taken = [&](int steps) -> llvm::Expected<int64_t> {
    Report r(c.figures);
    if (auto e = execute(c, device_, {steps}, r); !e)
      return e.takeError();
    return *r.deviceMemoryBytes;
  };
  auto first = taken(1); // loads kernels, which stay in memory
  if (!first)
    return first.takeError();
  auto once = taken(1);
  if (!once)
    return once.takeError();
  auto often = taken(3);
  if (!often)
    return often.takeError();
  int64_t promised = c.figures.arenaBytes + c.figures.persistentBytes;
  check(*once >= promised && *once <= promised + kDriverBytes,
        llvm::formatv("the device says that a run took {0} bytes; {1} were planned", *once,
                      promised));
  check(*often <= *once + kDriverBytes, "repeated steps took memory");
  return llvm::Error::success();
}

void Selftest::checkMemory() {
  auto m = device_.memory();
  if (!m)
    return check(m.takeError(), "the device's memory");
  if (!*m)
    return;
  // Large tensors, and little to compute.
  auto g = buildZoo("mlp", {{"batch", "262144"}, {"width", "16"}, {"shape", "16"}});
  if (!g)
    return check(g.takeError(), "mlp");
  CompileOptions o;
  o.differentiates = false;
  auto c = compile(std::move(*g), o, device_.target());
  check(c ? checkMemoryOf(*c) : c.takeError(), "memory");
}

void Selftest::checkOutOfMemory() {
  auto address = device_.allocate(int64_t(1) << 50);
  if (address) {
    device_.release(*address);
    return check(false, "a petabyte was given");
  }
  std::string message = plainMessage(address.takeError());
  check(llvm::StringRef(message).contains("out of memory") &&
            llvm::StringRef(message).contains("MiB asked for"),
        "running out of memory: " + message);
  auto g = buildZoo("mlp", {{"batch", "4"}});
  if (!g)
    return check(g.takeError(), "mlp");
  auto again = outputsOf(*g, AsItIs(), device_);
  check(bool(again), "a step after running out of memory");
  if (!again)
    llvm::consumeError(again.takeError());
}

} // namespace isthmus
