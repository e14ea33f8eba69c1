// Does this build compute rightly on this machine? A device is held against the plain kernels on
// the CPU, and against what plans promise.
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

  // Every example of the op table, or of the ops named: in f64 and f32 what the reference has in
  // f64, and in 16 bits what it has of the same operands.
  void checkKernels(llvm::ArrayRef<std::string> ops = {});
  // Steps that are repeated, as a device may record them: the bits of a single one.
  void checkRecording();
  // Small networks: under every policy the bits of no policy, the peak that was predicted and no
  // more than the baseline's. Those with convolutions also as a GPU's tensor cores want them.
  void checkNetworks();
  // Random graphs over the whole table: nearly the reference's results, and after rewriting the
  // same bits.
  void checkRandomGraphs(size_t count);
  // By the device's own count, where it keeps one, a network takes what its plan says, and
  // repeating the step takes nothing.
  void checkMemory();
  // More memory than there is: an error that tells sizes, and a device that goes on.
  void checkOutOfMemory();

  size_t passed() const { return passed_; }
  size_t failed() const { return failed_; }

private:
  void check(bool ok, const std::string &what); // tells what failed on stderr
  void check(llvm::Error e, const std::string &what);

  llvm::Error checkKernel(const OpDef &op, const std::string &example);
  llvm::Error checkNarrow(const Graph &exact, const OpDef &op, const std::string &example);
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

// The graph's outputs after some steps on drawn inputs, as it is or, with a policy, planned; their
// figures into `report`, if given.
llvm::Expected<std::vector<Tensor>> outputsOf(const Graph &g, const PlanChoice &plan,
                                              Device &device, Report *report = nullptr,
                                              int steps = 1);

// Whether all elements agree within `tolerance` of the tensor's largest, or of one; elements that
// are no floats must be equal. The types may differ in precision.
bool isClose(const Tensor &got, const Tensor &want, double tolerance);

} // namespace isthmus
