// What passes may know about the machine a graph is meant for. Storage sizes and workspaces follow
// from it before anything is planned, so a rewritten graph records the target's name.
#pragma once

#include "ir/graph.h"
#include <array>
#include <map>
#include <memory>

namespace isthmus {

// What calls took on a device, in place of what the roofline says.
struct MeasuredCosts {
  std::string target;                    // the name of the target that they were measured on
  std::map<std::string, double> seconds; // by callKey
  // What was not measured takes so many times what the roofline says.
  double perEstimate = 1;
};

struct Target {
  std::string name = "generic"; // "cpu avx512 threads=2"
  int64_t alignment = 64;       // every storage is rounded up to this many bytes

  // Scratch bytes of a call; null means none. An error if the target cannot run it.
  std::function<llvm::Expected<int64_t>(const OpCall &)> workspace;

  // Whether a matrix product that adds a bias saves a pass over its result.
  bool fusesBias = false;

  // Roofline: a call takes the longer of its arithmetic and its traffic, plus a start-up time.
  double flopsPerSecond = 100e9;
  double bytesPerSecond = 10e9;
  double launchSeconds = 2e-6;
  // Of convolutions and matrix products, by the dtype of the first operand: units of their own
  // compute them on some devices. Zero: as other arithmetic.
  std::array<double, 8> contractionFlopsPerSecond = {};

  // In place of the roofline; null: nothing was measured.
  std::shared_ptr<const MeasuredCosts> measured;

  // Of the link to the host's memory, each way; zero where there is none.
  double linkBytesPerSecond = 0;

  // Types of elements whose convolutions are faster with channels last (ir/ops/channels.h).
  std::vector<DType> channelsLast;

  int64_t rounded(int64_t bytes) const { return (bytes + alignment - 1) / alignment * alignment; }
  llvm::Expected<int64_t> workspaceBytes(const OpCall &call) const {
    return workspace ? workspace(call) : 0;
  }
  double flopsPerSecondOf(const OpCall &call) const;
  double seconds(const OpCall &call) const;          // of the units that compute
  double estimatedSeconds(const OpCall &call) const; // by the roofline
  double transferSeconds(int64_t bytes) const;
};

} // namespace isthmus
