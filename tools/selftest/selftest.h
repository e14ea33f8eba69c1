// Checks whether this build computes correctly on this machine. A device is compared with the plain
// kernels on the CPU, and with the promises of plans.
#pragma once

#include "runtime/device.h"
#include "tools/cli/compiled.h"
#include "tools/zoo/zoo.h"
#include <string>

namespace isthmus {

class Selftest {
public:
  // `reference` computes with the plain kernels; both outlive the test.
  Selftest(Device &device, Device &reference) : device_(device), reference_(reference) {}

  // Every example of the op table, or of the given ops. In f64 and f32 the device must agree with
  // the reference in f64, in 16 bits with the reference on the same operands.
  void checkKernels(llvm::ArrayRef<std::string> ops = {});
  // Repeated steps, which a device may record, must give the bits of a single step.
  void checkRecording();
  // Small networks: every policy must give the bits of no policy, the predicted peak, and no more
  // than the baseline's peak. Networks with convolutions also run in the form for a GPU's tensor
  // cores.
  void checkNetworks();
  // Random graphs over the whole table must give nearly the reference's results, and the same bits
  // after rewriting.
  void checkRandomGraphs(size_t count);
  // By the device's own count, if it keeps one, a network must take the memory of its plan, and
  // repeating the step must take none.
  void checkMemory();
  // Asking for more memory than exists must give an error with sizes, and the device must go on.
  void checkOutOfMemory();

  size_t passed() const { return passed_; }
  size_t failed() const { return failed_; }

private:
  void check(bool ok, const std::string &what); // reports a failure on stderr
  void check(llvm::Error e, const std::string &what);

  llvm::Error checkKernel(const OpDef &op, const std::string &example);
  llvm::Error checkNarrow(const Graph &exact, const std::string &example);
  llvm::Error checkAlike(const Graph &g, double tolerance, const std::string &what);
  llvm::Error checkRecording(const std::string &name, const ZooOptions &options);
  llvm::Error checkMemoryOf(const Compiled &c);
  llvm::Error checkNetwork(const std::string &name, const ZooOptions &options);
  // `y`: the first output in f32.
  llvm::Error checkChannelsLast(const std::string &name, const Graph &g, const Tensor &y);
  llvm::Error checkRandomGraph(uint64_t seed);
  llvm::Error checkPolicies(const std::string &name, const Graph &g,
                            llvm::ArrayRef<Policy> policies, llvm::ArrayRef<Tensor> want);

  Device &device_, &reference_;
  size_t passed_ = 0, failed_ = 0;
};

// The graph's outputs after some steps on drawn inputs, with or without a plan. Stores the figures
// in `report`, if given.
llvm::Expected<std::vector<Tensor>> outputsOf(const Graph &g, const PlanChoice &plan,
                                              Device &device, Report *report = nullptr,
                                              int steps = 1);

// Whether all elements agree within `tolerance` times the tensor's largest element, or times one;
// elements that are not floats must be equal. The types may differ in precision.
bool isClose(const Tensor &got, const Tensor &want, double tolerance);

} // namespace isthmus
